//! A batch whose structure is made at run time, and its exact value in words.

use std::collections::{BTreeMap, HashMap};

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn_dp::{BatchInspector, DataParallelError, Gather, GatherPlan, Rows, Scatter, Shards};
use proptest::prelude::*;

use crate::models::waves::wave;

/// What a value is, in words that are equal only for values equal bit for bit.
pub trait Exact {
    fn exact(&self) -> String;
}

macro_rules! values {
    ($($variant:ident($type:ty)),+ $(,)?) => {
        /// Any structure made of what can be split.
        #[derive(Clone, Debug)]
        pub enum Value { $($variant($type)),+ }

        impl Scatter for Value {
            fn inspect(&self, inspector: &mut BatchInspector) {
                match self { $(Value::$variant(part) => part.inspect(inspector)),+ }
            }
            fn into_shards(self, shards: &Shards) -> Vec<Self> {
                match self {
                    $(Value::$variant(part) => part.into_shards(shards).into_iter().map(Value::$variant).collect()),+
                }
            }
            fn to_replica(self, replica: usize, shards: &Shards) -> Self {
                match self { $(Value::$variant(part) => Value::$variant(part.to_replica(replica, shards))),+ }
            }
        }

        impl Gather for Value {
            fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                match &shards[0] {
                    $(Value::$variant(_) => {
                        let parts = shards.into_iter().map(|shard| match shard {
                            Value::$variant(part) => part,
                            other => panic!("shards of another structure: {other:?}"),
                        });
                        Gather::gather_shards(parts.collect(), plan).map(Value::$variant)
                    }),+
                }
            }
        }

        impl Exact for Value {
            fn exact(&self) -> String {
                match self { $(Value::$variant(part) => format!("{}({})", stringify!($variant), part.exact())),+ }
            }
        }
    };
}

values! {
    Float1(Tensor<1>), Float2(Tensor<2>), Float3(Tensor<3>), Float4(Tensor<4>), Float5(Tensor<5>),
    Int1(Tensor<1, Int>), Int2(Tensor<2, Int>), Int3(Tensor<3, Int>), Int4(Tensor<4, Int>), Int5(Tensor<5, Int>),
    Bool1(Tensor<1, Bool>), Bool2(Tensor<2, Bool>), Bool3(Tensor<3, Bool>), Bool4(Tensor<4, Bool>),
    Bool5(Tensor<5, Bool>),
    Rows(Rows<String>),
    Number(i64),
    Text(String),
    Unit(()),
    List(Vec<Value>),
    Maybe(Option<Box<Value>>),
    Sorted(BTreeMap<String, Value>),
    Hashed(HashMap<u8, Value>),
    Pair(Box<(Value, Value)>),
    Triple(Box<(Value, Value, Value)>),
    Marked(Box<Marked>),
}

/// A struct whose fields say how they are split.
#[derive(Scatter, Gather, Clone, Debug)]
pub struct Marked {
    plain: Value,
    #[scatter(dim = 1)]
    #[gather(dim = 1)]
    turned: Value,
    #[scatter(shared)]
    #[gather(first)]
    shared: Value,
    #[scatter(clone)]
    #[gather(first)]
    note: &'static str,
}

macro_rules! exact_tensor {
    ($($type:ty),+) => {$(
        impl<const D: usize> Exact for $type {
            fn exact(&self) -> String {
                let data = self.to_data();
                format!("{:?} {:?} {:?}", self.dims(), data.dtype(), data.as_bytes())
            }
        }
    )+};
}
exact_tensor!(Tensor<D>, Tensor<D, Int>, Tensor<D, Bool>);

macro_rules! exact_plain {
    ($($type:ty),+) => {$(
        impl Exact for $type {
            fn exact(&self) -> String { format!("{self:?}") }
        }
    )+};
}
exact_plain!((), i64, String, Rows<String>);

impl Exact for Vec<Value> {
    fn exact(&self) -> String {
        format!("{:?}", self.iter().map(Value::exact).collect::<Vec<_>>())
    }
}
impl Exact for Option<Box<Value>> {
    fn exact(&self) -> String {
        format!("{:?}", self.as_ref().map(|value| value.exact()))
    }
}
impl<K: Ord + std::fmt::Debug> Exact for BTreeMap<K, Value> {
    fn exact(&self) -> String {
        let parts = self.iter().map(|(key, value)| (key, value.exact()));
        format!("{:?}", parts.collect::<Vec<_>>())
    }
}
impl Exact for HashMap<u8, Value> {
    fn exact(&self) -> String {
        let parts = self.iter().map(|(&key, value)| (key, value.exact()));
        format!("{:?}", parts.collect::<BTreeMap<_, _>>())
    }
}
impl Exact for Box<(Value, Value)> {
    fn exact(&self) -> String {
        format!("{:?}", [self.0.exact(), self.1.exact()])
    }
}
impl Exact for Box<(Value, Value, Value)> {
    fn exact(&self) -> String {
        format!("{:?}", [self.0.exact(), self.1.exact(), self.2.exact()])
    }
}
impl Exact for Box<Marked> {
    fn exact(&self) -> String {
        let parts = [&self.plain, &self.turned, &self.shared].map(Value::exact);
        format!("{parts:?} {}", self.note)
    }
}

/// A structure whose tensors have `rows` rows along `dim`, or none at all.
pub fn value(rows: usize, dim: usize, device: Device) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => tensor(rows, dim, device.clone()),
        1 => Just(Value::Rows(Rows((0..rows).map(|row| format!("row {row}")).collect()))),
        1 => any::<i64>().prop_map(Value::Number),
        1 => "[a-z]{0,3}".prop_map(Value::Text),
        1 => Just(Value::Unit(())),
        2 => marked(rows, dim, device),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let one = || inner.clone();
        prop_oneof![
            prop::collection::vec(one(), 0..4).prop_map(Value::List),
            prop::option::of(one().prop_map(Box::new)).prop_map(Value::Maybe),
            prop::collection::btree_map("[a-c]", one(), 0..3).prop_map(Value::Sorted),
            prop::collection::hash_map(0u8..9, one(), 0..4).prop_map(Value::Hashed),
            (one(), one()).prop_map(|pair| Value::Pair(Box::new(pair))),
            (one(), one(), one()).prop_map(|triple| Value::Triple(Box::new(triple))),
        ]
    })
}

fn marked(rows: usize, dim: usize, device: Device) -> impl Strategy<Value = Value> {
    let turned = prop::collection::vec(tensor(rows, 1, device.clone()), 0..3).prop_map(Value::List);
    // Shared tensors have as many rows as they like.
    let shared = (0usize..9).prop_flat_map({
        let device = device.clone();
        move |rows| tensor(rows, 0, device.clone())
    });
    (tensor(rows, dim, device), turned, shared).prop_map(|(plain, turned, shared)| {
        Value::Marked(Box::new(Marked {
            plain,
            turned,
            shared,
            note: "note",
        }))
    })
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Float,
    Int,
    Bool,
}

/// One tensor of any rank that has `dim`, of any kind; other dims may be 0.
fn tensor(rows: usize, dim: usize, device: Device) -> impl Strategy<Value = Value> {
    let kind = prop_oneof![Just(Kind::Float), Just(Kind::Int), Just(Kind::Bool)];
    let dims = prop_oneof![3 => 1usize..4, 1 => Just(0)];
    let dims = prop::collection::vec(dims, 5);
    (dim + 1..=5, dims, kind, 0usize..99).prop_map(move |(rank, mut dims, kind, seed)| {
        dims[dim] = rows;
        dims.truncate(rank);
        let data = |count: usize| wave(count, seed);
        macro_rules! of_rank {
            ($make:ident, $($rank:literal $variant:ident),+) => {
                match rank {
                    $($rank => Value::$variant($make(data, dims.try_into().expect("the rank"), &device)),)+
                    _ => unreachable!("ranks are 1 to 5"),
                }
            };
        }
        match kind {
            Kind::Float => of_rank!(floats, 1 Float1, 2 Float2, 3 Float3, 4 Float4, 5 Float5),
            Kind::Int => of_rank!(ints, 1 Int1, 2 Int2, 3 Int3, 4 Int4, 5 Int5),
            Kind::Bool => of_rank!(bools, 1 Bool1, 2 Bool2, 3 Bool3, 4 Bool4, 5 Bool5),
        }
    })
}

/// Some are of the kinds that arithmetic changes: not a number, infinite, -0, and below the smallest normal number.
fn floats<const D: usize>(
    data: impl Fn(usize) -> Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    const ODD: [f32; 5] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-40];
    let values = data(shape.iter().product()).into_iter().enumerate();
    let values = values.map(|(i, x)| if x > 0.8 { ODD[i % ODD.len()] } else { x });
    Tensor::from_data(TensorData::new(values.collect(), shape), device)
}

fn ints<const D: usize>(
    data: impl Fn(usize) -> Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Int> {
    let values = data(shape.iter().product()).into_iter();
    let values = values.map(|x| (x * i32::MAX as f32) as i32);
    Tensor::from_data(TensorData::new(values.collect(), shape), device)
}

fn bools<const D: usize>(
    data: impl Fn(usize) -> Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Bool> {
    let values = data(shape.iter().product()).into_iter().map(|x| x > 0.0);
    Tensor::from_data(TensorData::new(values.collect(), shape), device)
}
