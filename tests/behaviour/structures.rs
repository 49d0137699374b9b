//! Batches and outputs of every structure: what is scattered and gathered again is what it was.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn_dp::{
    BatchInspector, DataParallel, DataParallelConfig, DataParallelError, DeviceIds, Gather,
    GatherPlan, Mean, PerReplica, Rows, Scatter, Shards, Sum, balanced_sizes,
};
use proptest::prelude::*;

use crate::compare::{bool_values, int_values, values};
use crate::models::{Mlp, device, ints, tensor};

/// What a value is, in words that are equal only for equal values.
trait Shown {
    fn shown(&self) -> String;
}

impl<const D: usize> Shown for Tensor<D> {
    fn shown(&self) -> String {
        format!("float {:?} {:?}", self.dims(), values(self))
    }
}
impl<const D: usize> Shown for Tensor<D, Int> {
    fn shown(&self) -> String {
        format!("int {:?} {:?}", self.dims(), int_values(self))
    }
}
impl<const D: usize> Shown for Tensor<D, Bool> {
    fn shown(&self) -> String {
        format!("bool {:?} {:?}", self.dims(), bool_values(self))
    }
}
impl<T: Shown> Shown for Vec<T> {
    fn shown(&self) -> String {
        format!("vec {:?}", self.iter().map(T::shown).collect::<Vec<_>>())
    }
}
impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        format!("option {:?}", self.as_ref().map(T::shown))
    }
}
impl<T: Shown> Shown for Box<T> {
    fn shown(&self) -> String {
        (**self).shown()
    }
}
impl<K: Debug + Ord, T: Shown> Shown for BTreeMap<K, T> {
    fn shown(&self) -> String {
        format!(
            "map {:?}",
            self.iter().map(|(k, v)| (k, v.shown())).collect::<Vec<_>>()
        )
    }
}
impl<K: Debug + Ord, T: Shown> Shown for HashMap<K, T> {
    fn shown(&self) -> String {
        format!(
            "map {:?}",
            self.iter()
                .map(|(k, v)| (k, v.shown()))
                .collect::<BTreeMap<_, _>>()
        )
    }
}
impl<T: Debug> Shown for Rows<T> {
    fn shown(&self) -> String {
        format!("rows {:?}", self.0)
    }
}
macro_rules! shown_plain {
    ($($name:ty),+) => {$(
        impl Shown for $name {
            fn shown(&self) -> String { format!("{self:?}") }
        }
    )+};
}
shown_plain!((), bool, char, String, f32, f64, u8, usize, i64);

macro_rules! shown_tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Shown),+> Shown for ($($name,)+) {
            fn shown(&self) -> String { [$(self.$index.shown()),+].join(" | ") }
        }
    };
}
shown_tuple!(A 0);
shown_tuple!(A 0, B 1);
shown_tuple!(A 0, B 1, C 2);
shown_tuple!(A 0, B 1, C 2, D 3);
shown_tuple!(A 0, B 1, C 2, D 3, E 4);
shown_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);

fn bools<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D, Bool> {
    let count: usize = shape.iter().product();
    let values: Vec<bool> = (0..count).map(|i| i % 3 == 0).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// `value` through `forward` on one to four replicas comes back as it was; each replica sees the value it is told.
#[track_caller]
fn assert_returns<T: Scatter + Gather + Clone + Shown + Send + 'static>(dim: usize, value: T) {
    let expected = value.shown();
    for replicas in 1..=4 {
        let model = DataParallelConfig::new()
            .with_dim(dim)
            .init_on(Mlp::new(&device()), DeviceIds::repeat(0, replicas))
            .expect("it wraps");
        let output = model
            .forward(value.clone(), |_: &Mlp, shard: T| shard)
            .expect("forward works");
        assert_eq!(output.shown(), expected, "on {replicas}");
    }
}

#[test]
fn tensors_of_every_rank_and_kind_return() {
    let device = device();
    macro_rules! check {
        ($shape:expr) => {{
            let shape = $shape;
            for dim in 0..shape.len() {
                assert_returns(dim, tensor(shape, 1, &device));
                assert_returns(dim, ints(shape, 100, &device));
                assert_returns(dim, bools(shape, &device));
            }
        }};
    }
    check!([7]);
    check!([5, 3]);
    check!([4, 3, 5]);
    check!([3, 2, 4, 2]);
    check!([2, 3, 2, 1, 5]);
}

#[test]
fn tuples_to_six_return() {
    let device = device();
    let (a, b, c) = (
        tensor([5, 2], 1, &device),
        ints([5], 9, &device),
        bools([5, 1, 2], &device),
    );
    assert_returns(0, (a.clone(),));
    assert_returns(0, (a.clone(), b.clone()));
    assert_returns(0, (a.clone(), b.clone(), c.clone()));
    assert_returns(0, (a.clone(), b.clone(), c.clone(), 7usize));
    assert_returns(
        0,
        (a.clone(), b.clone(), c.clone(), 7usize, Some(b.clone())),
    );
    assert_returns(
        0,
        (
            a.clone(),
            (b.clone(), (c, ())),
            1.5f32,
            Some(a),
            vec![b],
            Rows(vec!["v", "w", "x", "y", "z"]),
        ),
    );
}

#[test]
fn containers_and_plain_values_return() {
    let device = device();
    let (a, b) = (tensor([5, 2], 1, &device), tensor([5, 3], 2, &device));
    assert_returns(0, vec![a.clone(), b.clone()]);
    assert_returns(0, (vec![Some(a.clone()), None], b.clone()));
    assert_returns(0, (None::<Tensor<2>>, a.clone()));
    assert_returns(0, Box::new(a.clone()));
    assert_returns(0, BTreeMap::from([("a", a.clone()), ("b", b.clone())]));
    assert_returns(0, HashMap::from([(3u8, a.clone()), (1, b.clone())]));
    assert_returns(0, (Vec::<Tensor<1>>::new(), a.clone()));
    assert_returns(0, Rows((0..7).map(|i| format!("row {i}")).collect()));
    assert_returns(0, (a, true, 'x', "text".to_string(), 1.5f64, (2u8, 3i64)));
    assert_returns(0, ());
    assert_returns(0, Vec::<Tensor<2>>::new());
}

/// A `Vec` is a structure whose elements are each split, `Rows` a list of rows.
#[test]
fn a_vec_is_split_element_by_element_and_rows_as_a_list() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let batch = (
        vec![tensor([3, 1], 1, &device()); 4],
        Rows(vec!["a", "b", "c"]),
    );
    let seen = model
        .forward(
            batch,
            |_: &Mlp, (list, rows): (Vec<Tensor<2>>, Rows<&'static str>)| {
                let dims: Vec<_> = list.iter().map(|x| x.dims()[0]).collect();
                PerReplica(vec![(dims, rows.0)])
            },
        )
        .expect("forward works");
    assert_eq!(
        seen.0,
        [(vec![2; 4], vec!["a", "b"]), (vec![1; 4], vec!["c"])]
    );
}

/// Needs neither `Scatter` nor `Gather`.
#[derive(Clone, Debug, PartialEq)]
struct Foreign(&'static str);

#[derive(Scatter, Clone)]
struct Batch {
    images: Tensor<3>,
    targets: Tensor<1, Int>,
    #[scatter(dim = 1)]
    hidden: Tensor<3>,
    #[scatter(shared)]
    class_weights: Tensor<1>,
    #[scatter(clone)]
    note: Foreign,
    epoch: usize,
    extra: Option<Inner<Tensor<2>>>,
}

#[derive(Scatter, Gather, Clone)]
struct Inner<T> {
    x: T,
    mask: Tensor<2, Bool>,
}

#[derive(Gather)]
struct Output {
    images: Tensor<3>,
    #[gather(dim = 1)]
    hidden: Tensor<3>,
    #[gather(mean)]
    loss: Tensor<1>,
    #[gather(mean)]
    number: f64,
    #[gather(sum)]
    correct: Tensor<1, Int>,
    #[gather(sum)]
    count: usize,
    #[gather(first)]
    note: Foreign,
    epoch: usize,
    extra: Option<Inner<Tensor<2>>>,
    parts: PerReplica<Vec<usize>>,
}

#[test]
fn a_derived_struct_does_with_each_field_what_its_attribute_says() {
    let device = device();
    let batch = Batch {
        images: tensor([5, 2, 2], 1, &device),
        targets: ints([5], 3, &device),
        hidden: tensor([2, 5, 3], 2, &device),
        class_weights: tensor([3], 3, &device),
        note: Foreign("note"),
        epoch: 4,
        extra: Some(Inner {
            x: tensor([5, 1], 4, &device),
            mask: bools([5, 2], &device),
        }),
    };
    let model = DataParallel::new(Mlp::new(&device), DeviceIds::repeat(0, 3)).expect("it wraps");
    let weights = batch.class_weights.shown();
    let output = model
        .forward(batch.clone(), move |_: &Mlp, shard: Batch| {
            let rows = shard.images.dims()[0];
            assert_eq!(shard.class_weights.shown(), weights);
            assert_eq!(shard.targets.dims(), [rows]);
            Output {
                hidden: shard.hidden.clone(),
                loss: shard.images.clone().mean(),
                number: f64::from(shard.images.clone().mean().into_scalar::<f32>()),
                correct: shard.targets.sum(),
                count: rows,
                note: shard.note,
                epoch: shard.epoch,
                extra: shard.extra,
                parts: PerReplica(vec![vec![rows, shard.hidden.dims()[1]]]),
                images: shard.images,
            }
        })
        .expect("forward works");
    assert_eq!(output.images.shown(), batch.images.shown());
    assert_eq!(output.hidden.shown(), batch.hidden.shown());
    let mean = batch.images.clone().mean().into_scalar::<f32>();
    assert!((output.loss.into_scalar::<f32>() - mean).abs() < 1e-6);
    assert!((output.number - f64::from(mean)).abs() < 1e-6);
    assert_eq!(output.correct.shown(), batch.targets.sum().shown());
    assert_eq!(output.count, 5);
    assert_eq!(output.note, batch.note);
    assert_eq!(output.epoch, 4);
    let (extra, expected) = (output.extra.expect("Some"), batch.extra.expect("Some"));
    assert_eq!(extra.x.shown(), expected.x.shown());
    assert_eq!(extra.mask.shown(), expected.mask.shown());
    assert_eq!(output.parts.0, [vec![2, 2], vec![2, 2], vec![1, 1]]);
}

#[derive(Scatter, Gather, Clone)]
struct Pair<T, U>(
    T,
    #[scatter(dim = 1)]
    #[gather(dim = 1)]
    U,
);

// A where clause that ends in a comma, as rustfmt writes it, and one (`Bare`) that does not.
#[derive(Scatter, Gather, Clone)]
struct Ranked<const D: usize>
where
    [(); 1]: Sized,
{
    x: Tensor<D>,
}

#[rustfmt::skip]
#[allow(dead_code)] // it compiles: that is the test
#[derive(Scatter, Gather, Clone)]
struct Bare<const D: usize> where [(); 1]: Sized {
    x: Tensor<D>,
}

#[derive(Scatter, Gather, Clone)]
struct Reduced<T: Clone> {
    #[scatter(shared)]
    #[gather(mean)]
    mean: T,
    #[scatter(clone)]
    #[gather(first)]
    first: T,
}

#[derive(Scatter, Gather, Clone)]
struct Nothing;

#[derive(Scatter, Gather, Clone)]
struct Deep<T> {
    list: Vec<Pair<T, Tensor<2>>>,
    map: BTreeMap<String, Option<Ranked<3>>>,
    nothing: Nothing,
    reduced: Reduced<Tensor<1>>,
}

impl<T: Shown> Shown for Deep<T> {
    fn shown(&self) -> String {
        let list: Vec<_> = self
            .list
            .iter()
            .map(|pair| (pair.0.shown(), pair.1.shown()))
            .collect();
        let map: Vec<_> = self
            .map
            .iter()
            .map(|(key, value)| (key, value.as_ref().map(|value| value.x.shown())))
            .collect();
        let reduced = (self.reduced.mean.shown(), self.reduced.first.shown());
        format!("{list:?} {map:?} {reduced:?}")
    }
}

#[test]
fn generic_tuple_unit_and_nested_structs_return() {
    let device = device();
    // Values whose weighted mean over equal copies is exact: the mean field must come back as it was.
    let exact = Tensor::<1>::from_floats([1.0, -2.0], &device);
    let deep = Deep {
        list: vec![Pair(ints([4], 9, &device), tensor([2, 4], 1, &device)); 2],
        map: BTreeMap::from([
            (
                "a".to_string(),
                Some(Ranked {
                    x: tensor([4, 2, 1], 2, &device),
                }),
            ),
            ("b".to_string(), None),
        ]),
        nothing: Nothing,
        reduced: Reduced {
            mean: exact.clone(),
            first: exact,
        },
    };
    let expected = deep.shown();
    for replicas in [1, 2, 4] {
        let model =
            DataParallel::new(Mlp::new(&device), DeviceIds::repeat(0, replicas)).expect("it wraps");
        let output = model
            .forward(deep.clone(), |_: &Mlp, shard: Deep<Tensor<1, Int>>| shard)
            .expect("forward works");
        assert_eq!(output.shown(), expected, "on {replicas}");
    }
}

#[test]
fn errors_name_the_field_by_its_path() {
    let device = device();
    let model = DataParallel::new(Mlp::new(&device), DeviceIds::repeat(0, 2)).expect("it wraps");
    let batch = || Deep {
        list: vec![
            Pair(tensor([4], 1, &device), tensor([2, 4], 1, &device)),
            Pair(tensor([4], 1, &device), tensor([4, 2], 1, &device)),
        ],
        map: BTreeMap::new(),
        nothing: Nothing,
        reduced: Reduced {
            mean: tensor([1], 1, &device),
            first: tensor([1], 1, &device),
        },
    };
    match model.forward(batch(), |_: &Mlp, _: Deep<Tensor<1>>| 0usize) {
        Err(DataParallelError::UnequalRows {
            first,
            second,
            second_dim,
            second_rows,
            ..
        }) => {
            assert_eq!((first.as_str(), second.as_str()), ("list.0.0", "list.1.1"));
            assert_eq!((second_dim, second_rows), (1, 2));
        }
        other => panic!("another result: {other:?}"),
    }
    // Shards of 2 rows and 1: the field that is gathered along dim 1 fits, the other does not.
    let error = model
        .forward(tensor([3, 2], 1, &device), |_: &Mlp, x: Tensor<2>| {
            let rows = x.dims()[0];
            let wide = x.slice([0..1, 0..rows]);
            Pair(vec![Some(wide.clone())], wide)
        })
        .map(|_| ())
        .expect_err("widths 2 and 1");
    match error {
        DataParallelError::GatherShapes {
            path, dim, replica, ..
        } => {
            assert_eq!((path.as_str(), dim, replica), ("0.0", 0, 1));
        }
        other => panic!("another error: {other}"),
    }
}

#[test]
fn outputs_of_different_structure_are_errors() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let x = || tensor([3, 2], 1, &device());
    let is_mismatch = |what: &str, result: Result<(), DataParallelError>| match result {
        Err(DataParallelError::GatherMismatch { detail, .. }) => {
            assert!(detail.contains("replica"), "{what}: {detail}");
        }
        other => panic!("{what}: another result: {other:?}"),
    };
    let large = |x: &Tensor<2>| x.dims()[0] == 2;
    let list = model.forward(x(), move |_: &Mlp, x: Tensor<2>| {
        if large(&x) {
            vec![x.clone(), x]
        } else {
            vec![x]
        }
    });
    is_mismatch("a shorter Vec", list.map(|_| ()));
    let option = model.forward(x(), move |_: &Mlp, x: Tensor<2>| large(&x).then_some(x));
    is_mismatch("Some and None", option.map(|_| ()));
    for swap in [false, true] {
        let map = model.forward(x(), move |_: &Mlp, x: Tensor<2>| {
            let mut map = BTreeMap::from([("a", x.clone())]);
            if large(&x) == swap {
                map.insert("b", x);
            }
            map
        });
        is_mismatch("another key", map.map(|_| ()));
    }
    let sum = model.forward(x(), move |_: &Mlp, x: Tensor<2>| Sum(x));
    is_mismatch("a sum of two shapes", sum.map(|_| ()));
    let mean = model.forward(x(), move |_: &Mlp, x: Tensor<2>| Mean(x));
    is_mismatch("a mean of two shapes", mean.map(|_| ()));
}

/// Any structure, made of the library's own containers.
#[derive(Clone, Debug)]
enum Tree {
    Float(Tensor<2>),
    Wide(Tensor<4>),
    Int(Tensor<1, Int>),
    Bool(Tensor<3, Bool>),
    Rows(Rows<usize>),
    Plain(i64),
    List(Vec<Tree>),
    Maybe(Option<Box<Tree>>),
    Map(BTreeMap<String, Tree>),
    Pair(Box<(Tree, Tree)>),
}

macro_rules! each {
    ($value:expr, $part:ident => $run:expr) => {
        match $value {
            Tree::Float($part) => $run,
            Tree::Wide($part) => $run,
            Tree::Int($part) => $run,
            Tree::Bool($part) => $run,
            Tree::Rows($part) => $run,
            Tree::Plain($part) => $run,
            Tree::List($part) => $run,
            Tree::Maybe($part) => $run,
            Tree::Map($part) => $run,
            Tree::Pair($part) => $run,
        }
    };
}

macro_rules! map_each {
    ($value:expr, $part:ident => $run:expr, $wrap:ident) => {
        match $value {
            Tree::Float($part) => $wrap!(Tree::Float, $run),
            Tree::Wide($part) => $wrap!(Tree::Wide, $run),
            Tree::Int($part) => $wrap!(Tree::Int, $run),
            Tree::Bool($part) => $wrap!(Tree::Bool, $run),
            Tree::Rows($part) => $wrap!(Tree::Rows, $run),
            Tree::Plain($part) => $wrap!(Tree::Plain, $run),
            Tree::List($part) => $wrap!(Tree::List, $run),
            Tree::Maybe($part) => $wrap!(Tree::Maybe, $run),
            Tree::Map($part) => $wrap!(Tree::Map, $run),
            Tree::Pair($part) => $wrap!(Tree::Pair, $run),
        }
    };
}

macro_rules! in_each {
    ($variant:path, $run:expr) => {
        $run.into_iter().map($variant).collect()
    };
}

macro_rules! in_one {
    ($variant:path, $run:expr) => {
        $variant($run)
    };
}

impl Scatter for Tree {
    fn inspect(&self, inspector: &mut BatchInspector) {
        each!(self, part => part.inspect(inspector));
    }
    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        map_each!(self, part => part.into_shards(shards), in_each)
    }
    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        map_each!(self, part => part.to_replica(replica, shards), in_one)
    }
}

impl Gather for Tree {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        macro_rules! gather {
            ($variant:path) => {{
                let parts = shards
                    .into_iter()
                    .map(|shard| match shard {
                        $variant(part) => part,
                        other => panic!("shards of another structure: {other:?}"),
                    })
                    .collect();
                Gather::gather_shards(parts, plan).map($variant)
            }};
        }
        match &shards[0] {
            Tree::Float(_) => gather!(Tree::Float),
            Tree::Wide(_) => gather!(Tree::Wide),
            Tree::Int(_) => gather!(Tree::Int),
            Tree::Bool(_) => gather!(Tree::Bool),
            Tree::Rows(_) => gather!(Tree::Rows),
            Tree::Plain(_) => gather!(Tree::Plain),
            Tree::List(_) => gather!(Tree::List),
            Tree::Maybe(_) => gather!(Tree::Maybe),
            Tree::Map(_) => gather!(Tree::Map),
            Tree::Pair(_) => gather!(Tree::Pair),
        }
    }
}

impl Shown for Tree {
    fn shown(&self) -> String {
        each!(self, part => part.shown())
    }
}

fn tree(rows: usize) -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (1usize..4, 0usize..99).prop_map(move |(width, seed)| Tree::Float(tensor(
            [rows, width],
            seed,
            &Device::flex()
        ))),
        (0usize..99).prop_map(move |seed| Tree::Wide(tensor(
            [rows, 2, 1, 3],
            seed,
            &Device::flex()
        ))),
        (1i64..99).prop_map(move |below| Tree::Int(ints([rows], below, &Device::flex()))),
        (1usize..4).prop_map(move |width| Tree::Bool(bools([rows, width, 2], &Device::flex()))),
        Just(Tree::Rows(Rows((0..rows).collect()))),
        any::<i64>().prop_map(Tree::Plain),
        Just(Tree::Maybe(None)),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::List),
            inner
                .clone()
                .prop_map(|tree| Tree::Maybe(Some(Box::new(tree)))),
            prop::collection::btree_map("[a-c]", inner.clone(), 0..3).prop_map(Tree::Map),
            (inner.clone(), inner).prop_map(|pair| Tree::Pair(Box::new(pair))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_scattered_and_gathered_is_what_it_was(
        (rows, replicas, tree) in (1usize..12, 1usize..7).prop_flat_map(|(rows, replicas)| (Just(rows), Just(replicas), tree(rows))),
    ) {
        let expected = tree.shown();
        let mut inspector = BatchInspector::new(0);
        tree.inspect(&mut inspector);
        let found = inspector.finish().expect("all rows are equal");
        prop_assert!(found.is_none_or(|found| found == rows));

        let sizes = balanced_sizes(rows, replicas);
        let shards = tree.into_shards(&Shards::new(0, sizes.clone(), vec![Device::flex(); sizes.len()]));
        prop_assert_eq!(shards.len(), sizes.len());
        for (shard, rows) in shards.iter().zip(&sizes) {
            let mut inspector = BatchInspector::new(0);
            shard.inspect(&mut inspector);
            let found = inspector.finish().expect("all rows of a shard are equal");
            prop_assert!(found.is_none_or(|found| found == *rows), "{:?} rows instead of {}", found, rows);
        }
        let gathered = Tree::gather_shards(shards, &GatherPlan::new(0, Device::flex(), &sizes)).expect("it gathers");
        prop_assert_eq!(gathered.shown(), expected);
    }
}
