//! Scatter for containers and plain values.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use super::{BatchInspector, Scatter};
use crate::shards::Shards;

/// A list whose elements are the rows: it is cut like a tensor's dim, whatever its elements are.
///
/// The elements stay where they are (usually on the host): use it to let each replica build its own tensors, straight on
/// its device.
///
/// ```
/// use burn_data_parallel::{Rows, Scatter, Shards};
/// # use burn::tensor::Device;
/// let plan = Shards::new(0, vec![2, 1], vec![Device::flex(), Device::flex()]);
/// let shards = Rows(vec!["a", "b", "c"]).into_shards(&plan);
/// assert_eq!(shards, [Rows(vec!["a", "b"]), Rows(vec!["c"])]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T>(pub Vec<T>);

impl<T> Scatter for Rows<T> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        inspector.rows(self.0.len());
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        let mut rest = self.0.into_iter();
        shards
            .ranges()
            .map(|(_, rows, _)| Rows(rest.by_ref().take(rows).collect()))
            .collect()
    }

    fn to_replica(self, _replica: usize, _shards: &Shards) -> Self {
        self
    }
}

impl<T: Scatter> Scatter for Vec<T> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        for (index, value) in self.iter().enumerate() {
            inspector.field(index.to_string(), value);
        }
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        let mut out: Vec<Self> = (0..shards.len())
            .map(|_| Vec::with_capacity(self.len()))
            .collect();
        for value in self {
            for (shard, piece) in out.iter_mut().zip(value.into_shards(shards)) {
                shard.push(piece);
            }
        }
        out
    }

    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        self.into_iter()
            .map(|value| value.to_replica(replica, shards))
            .collect()
    }
}

impl<T: Scatter> Scatter for Option<T> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        if let Some(value) = self {
            value.inspect(inspector);
        }
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        match self {
            Some(value) => value.into_shards(shards).into_iter().map(Some).collect(),
            None => (0..shards.len()).map(|_| None).collect(),
        }
    }

    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        self.map(|value| value.to_replica(replica, shards))
    }
}

impl<T: Scatter> Scatter for Box<T> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        (**self).inspect(inspector);
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        (*self)
            .into_shards(shards)
            .into_iter()
            .map(Box::new)
            .collect()
    }

    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        Box::new((*self).to_replica(replica, shards))
    }
}

macro_rules! scatter_map {
    ($map:ident<K, T $(, $hasher:ident)?>, $($bound:tt)+) => {
        impl<K: $($bound)+, T: Scatter $(, $hasher: BuildHasher + Default)?> Scatter for $map<K, T $(, $hasher)?> {
            fn inspect(&self, inspector: &mut BatchInspector) {
                for (key, value) in self {
                    inspector.field(format!("{key:?}"), value);
                }
            }

            fn into_shards(self, shards: &Shards) -> Vec<Self> {
                let mut out: Vec<Self> = (0..shards.len()).map(|_| Self::default()).collect();
                for (key, value) in self {
                    for (shard, piece) in out.iter_mut().zip(value.into_shards(shards)) {
                        shard.insert(key.clone(), piece);
                    }
                }
                out
            }

            fn to_replica(self, replica: usize, shards: &Shards) -> Self {
                self.into_iter().map(|(key, value)| (key, value.to_replica(replica, shards))).collect()
            }
        }
    };
}

scatter_map!(BTreeMap<K, T>, Ord + Clone + std::fmt::Debug);
scatter_map!(HashMap<K, T, S>, Eq + Hash + Clone + std::fmt::Debug);

macro_rules! scatter_tuple {
    ($($name:ident $index:tt $pieces:ident),+) => {
        impl<$($name: Scatter),+> Scatter for ($($name,)+) {
            fn inspect(&self, inspector: &mut BatchInspector) {
                $(inspector.field(stringify!($index), &self.$index);)+
            }

            fn into_shards(self, shards: &Shards) -> Vec<Self> {
                $(let mut $pieces = self.$index.into_shards(shards).into_iter();)+
                let mut out = Vec::with_capacity(shards.len());
                while let ($(Some($pieces),)+) = ($($pieces.next(),)+) {
                    out.push(($($pieces,)+));
                }
                out
            }

            fn to_replica(self, replica: usize, shards: &Shards) -> Self {
                ($(self.$index.to_replica(replica, shards),)+)
            }
        }
    };
}

scatter_tuple!(A 0 a);
scatter_tuple!(A 0 a, B 1 b);
scatter_tuple!(A 0 a, B 1 b, C 2 c);
scatter_tuple!(A 0 a, B 1 b, C 2 c, D 3 d);
scatter_tuple!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e);
scatter_tuple!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f);

macro_rules! scatter_plain {
    ($($name:ty),+) => {$(
        impl Scatter for $name {
            fn inspect(&self, _inspector: &mut BatchInspector) {}

            fn into_shards(self, shards: &Shards) -> Vec<Self> {
                vec![self; shards.len()]
            }

            fn to_replica(self, _replica: usize, _shards: &Shards) -> Self {
                self
            }
        }
    )+};
}

scatter_plain!(
    (),
    bool,
    char,
    String,
    f32,
    f64,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize
);
