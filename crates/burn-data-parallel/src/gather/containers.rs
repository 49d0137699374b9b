//! Gather for containers and plain values.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

use super::{Gather, GatherPlan};
use crate::error::DataParallelError;
use crate::scatter::Rows;

impl<T> Gather for Rows<T> {
    fn gather_shards(shards: Vec<Self>, _plan: &GatherPlan) -> Result<Self, DataParallelError> {
        Ok(Rows(shards.into_iter().flat_map(|shard| shard.0).collect()))
    }
}

impl<T: Gather> Gather for Vec<T> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        let len = shards[0].len();
        if let Some(replica) = shards.iter().position(|shard| shard.len() != len) {
            let other = shards[replica].len();
            return Err(plan.mismatch(format!(
                "a Vec of {len} on replica 0, of {other} on replica {replica}"
            )));
        }
        let mut columns: Vec<_> = shards.into_iter().map(Vec::into_iter).collect();
        (0..len)
            .map(|index| {
                let parts = columns.iter_mut().filter_map(Iterator::next).collect();
                T::gather_shards(parts, &plan.field(index.to_string()))
            })
            .collect()
    }
}

impl<T: Gather> Gather for Option<T> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        let replicas = shards.len();
        let parts: Vec<T> = shards.into_iter().flatten().collect();
        if parts.is_empty() {
            return Ok(None);
        }
        if parts.len() != replicas {
            return Err(plan.mismatch(format!(
                "Some on {} of {replicas} replicas, None on the others",
                parts.len()
            )));
        }
        T::gather_shards(parts, plan).map(Some)
    }
}

impl<T: Gather> Gather for Box<T> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        T::gather_shards(shards.into_iter().map(|shard| *shard).collect(), plan).map(Box::new)
    }
}

macro_rules! gather_map {
    ($map:ident<K, T $(, $hasher:ident)?>, $($bound:tt)+) => {
        impl<K: $($bound)+, T: Gather $(, $hasher: BuildHasher + Default)?> Gather for $map<K, T $(, $hasher)?> {
            fn gather_shards(mut shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                let mut rest = shards.split_off(1);
                let first = shards.remove(0);
                let mut out = Self::default();
                for (key, value) in first {
                    let mut parts = vec![value];
                    for (index, shard) in rest.iter_mut().enumerate() {
                        match shard.remove(&key) {
                            Some(part) => parts.push(part),
                            None => return Err(plan.mismatch(format!("key {key:?} is missing on replica {}", index + 1))),
                        }
                    }
                    let value = T::gather_shards(parts, &plan.field(format!("{key:?}")))?;
                    out.insert(key, value);
                }
                match rest.iter().enumerate().find_map(|(index, shard)| shard.keys().next().map(|key| (index, key))) {
                    Some((index, key)) => Err(plan.mismatch(format!("key {key:?} is on replica {} but not on replica 0", index + 1))),
                    None => Ok(out),
                }
            }
        }
    };
}

gather_map!(BTreeMap<K, T>, Ord + Debug);
gather_map!(HashMap<K, T, S>, Eq + Hash + Debug);

macro_rules! gather_tuple {
    ($($name:ident $index:tt $parts:ident),+) => {
        impl<$($name: Gather),+> Gather for ($($name,)+) {
            fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                $(let mut $parts = Vec::with_capacity(shards.len());)+
                for shard in shards {
                    $($parts.push(shard.$index);)+
                }
                Ok(($($name::gather_shards($parts, &plan.field(stringify!($index)))?,)+))
            }
        }
    };
}

gather_tuple!(A 0 a);
gather_tuple!(A 0 a, B 1 b);
gather_tuple!(A 0 a, B 1 b, C 2 c);
gather_tuple!(A 0 a, B 1 b, C 2 c, D 3 d);
gather_tuple!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e);
gather_tuple!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f);

/// Plain values say something about the whole output (a number of classes, a flag), so every replica must agree.
fn equal_on_all<T: PartialEq + Debug>(
    mut shards: Vec<T>,
    plan: &GatherPlan,
) -> Result<T, DataParallelError> {
    match shards.iter().position(|shard| *shard != shards[0]) {
        None => Ok(shards.swap_remove(0)),
        Some(replica) => Err(plan.mismatch(format!(
            "{:?} on replica 0, {:?} on replica {replica}; use Mean or Sum for numbers that are to be combined",
            shards[0], shards[replica]
        ))),
    }
}

macro_rules! gather_plain {
    ($($name:ty),+) => {$(
        impl Gather for $name {
            fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                equal_on_all(shards, plan)
            }
        }
    )+};
}

gather_plain!(
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
