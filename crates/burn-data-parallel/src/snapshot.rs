//! A module's values on another device, put into copies of the module.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamId, ParameterValue};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::bucket::Packed;
use crate::inspect::is_trainable;
use crate::layout::{Layout, Place};
use crate::reading::{Part, Reading};
use crate::stats::Traffic;

/// How the copies relate to the primary's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Leaves of their own: gradients arrive on the replica.
    Leaf,
    /// Results of the primary's parameters in the autodiff graph: gradients flow back to the primary.
    Graph,
}

/// Values by parameter id. A parameter that stands in several places (tied weights) is copied once for the places that belong
/// together, and they stay tied.
///
/// Clones share the values, so that several copies of a module on one device are made of one snapshot, each on its own thread.
#[derive(Clone)]
pub(crate) struct Snapshot {
    link: Link,
    tensors: Arc<HashMap<Key, Box<dyn Any + Send + Sync>>>,
    flags: Arc<HashMap<ParamId, bool>>,
    packed: Option<(Arc<Layout>, Packed)>,
    reading: Arc<Reading>,
}

/// A parameter, and the group of its places; 0 where there is only one.
type Key = (ParamId, usize);

/// A float value, and whether a leaf is to be made of it.
struct Float<const D: usize> {
    value: Tensor<D>,
    leaf: Option<bool>,
}

/// Tells the group of each place, in order of visit.
struct Places<'a> {
    tied: &'a HashMap<ParamId, Vec<usize>>,
    seen: HashMap<ParamId, usize>,
}

impl<'a> Places<'a> {
    fn of(reading: &'a Reading) -> Self {
        Self {
            tied: &reading.tied,
            seen: HashMap::new(),
        }
    }

    fn next(&mut self, id: ParamId) -> Key {
        let Some(groups) = self.tied.get(&id) else {
            return (id, 0);
        };
        let seen = self.seen.entry(id).or_default();
        let group = groups.get(*seen).copied().unwrap_or_default();
        *seen += 1;
        (id, group)
    }
}

/// What of a module's values goes into a snapshot, and where to.
pub(crate) struct Take<'a> {
    pub(crate) reading: &'a Arc<Reading>,
    pub(crate) device: &'a Device,
    pub(crate) link: Link,
    pub(crate) scope: Scope,
    pub(crate) traffic: &'a Traffic,
}

/// Which values are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Running state.
    Buffers,
}

impl Take<'_> {
    /// Copy the values of `module`, each on its own.
    pub(crate) fn values<M: Module>(self, module: &M) -> Snapshot {
        self.collect(module, None)
    }

    /// The values of `module`: those that lie in buckets from `packed`, which is on the device; what lies in none is moved there.
    pub(crate) fn packed<M: Module>(self, module: &M, packed: (Arc<Layout>, Packed)) -> Snapshot {
        self.collect(module, Some(packed))
    }

    fn collect<M: Module>(self, module: &M, packed: Option<(Arc<Layout>, Packed)>) -> Snapshot {
        let mut collector = Collector {
            tensors: HashMap::new(),
            flags: HashMap::new(),
            places: Places::of(self.reading),
            packed: packed.as_ref().map(|(layout, _)| &**layout),
            take: &self,
        };
        module.visit(&mut collector);
        let (tensors, flags) = (collector.tensors, collector.flags);
        Snapshot {
            link: self.link,
            tensors: Arc::new(tensors),
            flags: Arc::new(flags),
            packed,
            reading: self.reading.clone(),
        }
    }
}

impl Snapshot {
    /// `module` with the values of this snapshot; values that the snapshot does not have stay.
    pub(crate) fn restore<M: Module>(&self, module: M) -> M {
        module.map(&mut Restore {
            snapshot: self,
            places: Places::of(&self.reading),
            made: HashMap::new(),
            visited: 0,
        })
    }

    /// The value for `id` from the bucket that it lies in.
    fn unpacked<T>(
        &self,
        id: ParamId,
        unpack: impl FnOnce(&Packed, &Place) -> Option<T>,
    ) -> Option<T> {
        let (layout, packed) = self.packed.as_ref()?;
        unpack(packed, layout.places.get(&id)?)
    }
}

struct Collector<'a> {
    tensors: HashMap<Key, Box<dyn Any + Send + Sync>>,
    flags: HashMap<ParamId, bool>,
    places: Places<'a>,
    packed: Option<&'a Layout>,
    take: &'a Take<'a>,
}

impl Collector<'_> {
    /// Keep what `copy` makes of a parameter, unless it lies in a bucket or has been kept at another place.
    fn keep<T: Send + Sync + 'static>(
        &mut self,
        id: ParamId,
        is_buffer: bool,
        copy: impl FnOnce(&Take<'_>) -> T,
    ) {
        let packed = self
            .packed
            .is_some_and(|layout| layout.places.contains_key(&id));
        let key = self.places.next(id);
        let wanted = is_buffer || self.take.scope == Scope::All;
        if wanted && !packed && !self.tensors.contains_key(&key) {
            let copy = copy(self.take);
            self.tensors.insert(key, Box::new(copy));
        }
    }
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.base();
        let is_buffer = self.take.reading.is_running(&param.id);
        self.keep(param.id, is_buffer, |take| {
            let requires_grad = is_trainable(&tensor);
            let copy = take.traffic.to_device(tensor, take.device);
            match take.link {
                Link::Graph => Float {
                    value: copy,
                    leaf: None,
                },
                // Detached after the move: a move makes a non-leaf of any tensor that is on an autodiff device.
                Link::Leaf => Float {
                    value: copy.detach(),
                    leaf: Some(requires_grad),
                },
            }
        });
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.keep(param.id, false, |take| {
            take.traffic.to_device(param.val(), take.device)
        });
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.keep(param.id, false, |take| {
            take.traffic.to_device(param.val(), take.device)
        });
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.flags.insert(flag.id, flag.is_enabled());
    }
}

/// Puts a snapshot into one module.
struct Restore<'a> {
    snapshot: &'a Snapshot,
    places: Places<'a>,
    /// What was made for tied parameters: a second place gets the same leaf.
    made: HashMap<Key, Box<dyn Any>>,
    /// Places so far, of all kinds.
    visited: usize,
}

impl Restore<'_> {
    /// What the reading says of the next place, which is one of `id`.
    fn next_part(&mut self, id: ParamId) -> Option<&Part> {
        let part = self.snapshot.reading.parts.get(self.visited);
        self.visited += 1;
        part.filter(|part| part.id == id)
    }

    /// The value for the next place of `id`: a kept one, made ready by `ready`, or else one from a bucket.
    fn value<S: 'static, T: Clone + 'static>(
        &mut self,
        id: ParamId,
        ready: impl FnOnce(&S) -> T,
        unpack: impl FnOnce(&Packed, &Place) -> Option<T>,
    ) -> Option<T> {
        let key = self.places.next(id);
        if let Some(made) = self.made.get(&key) {
            return made.downcast_ref().cloned();
        }
        let value = match self.snapshot.tensors.get(&key) {
            Some(kept) => ready(kept.downcast_ref()?),
            None => self.snapshot.unpacked(id, unpack)?,
        };
        if self.snapshot.reading.tied.contains_key(&id) {
            self.made.insert(key, Box::new(value.clone()));
        }
        Some(value)
    }
}

impl ModuleMapper for Restore<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let ready = |Float { value, leaf }: &Float<D>| match leaf {
            None => value.clone(),
            // Detached again: each copy of the module needs a node of its own in the autodiff graph.
            Some(requires_grad) => as_leaf(value.clone().detach(), *requires_grad),
        };
        let unpack = |packed: &Packed, place: &Place| {
            Some(as_leaf(packed.float(place)?, place.part.requires_grad))
        };
        let value = self.value(param.id, ready, unpack);
        let trains = self
            .next_part(param.id)
            .is_some_and(|part| part.requires_grad);
        let param = replace(param, value);
        // `Param::map` keeps what the copy was made with, and one that was made while the parameter was frozen falls back to that
        // in `Module::train`.
        if trains && self.snapshot.link == Link::Leaf && !param.is_require_grad() {
            return param.set_require_grad(true);
        }
        param
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let value = self.value(param.id, Tensor::clone, Packed::int);
        self.next_part(param.id);
        replace(param, value)
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        let value = self.value(param.id, Tensor::clone, Packed::bool);
        self.next_part(param.id);
        replace(param, value)
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        match self.snapshot.flags.get(&flag.id) {
            Some(&enabled) if enabled != flag.is_enabled() => flag.with_value(enabled),
            _ => flag,
        }
    }
}

fn as_leaf<const D: usize>(tensor: Tensor<D>, requires_grad: bool) -> Tensor<D> {
    if requires_grad {
        tensor.require_grad()
    } else {
        tensor
    }
}

/// `param` with another value; its id, its mappers for records and its configured trainability stay.
fn replace<T: ParameterValue>(param: Param<T>, value: Option<T>) -> Param<T> {
    match value {
        Some(value) => param.map(|_| value),
        None => param,
    }
}
