//! A module's values on another device, put into a copy of the module.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamId, ParameterValue};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::bucket::Packed;
use crate::inspect::{is_trainable, untied};
use crate::layout::Layout;
use crate::stats::Traffic;

/// How the copies relate to the primary's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Leaves of their own: gradients arrive on the replica.
    Leaf,
    /// Results of the primary's parameters in the autodiff graph: gradients flow back to the primary.
    Graph,
}

/// Values by parameter id. A parameter that stands in several places (tied weights) is copied once and stays tied, unless its
/// places have come to hold different values: then each place is copied for itself.
#[derive(Default)]
pub(crate) struct Snapshot<'a> {
    tensors: HashMap<Key, Box<dyn Any + Send>>,
    flags: HashMap<ParamId, bool>,
    packed: Option<(&'a Layout, Packed)>,
    places: Places,
}

/// A parameter, and which of its places; always the first where all places hold one value.
type Key = (ParamId, usize);

/// Numbers the places of untied parameters in order of visit.
#[derive(Default)]
struct Places {
    untied: HashSet<ParamId>,
    seen: HashMap<ParamId, usize>,
}

impl Places {
    fn next(&mut self, id: ParamId) -> Key {
        if !self.untied.contains(&id) {
            return (id, 0);
        }
        let seen = self.seen.entry(id).or_default();
        *seen += 1;
        (id, *seen)
    }
}

impl<'a> Snapshot<'a> {
    /// Copy the values of `module` to `device`, each on its own.
    pub(crate) fn take<M: Module>(
        module: &M,
        device: &Device,
        link: Link,
        traffic: &Traffic,
    ) -> Self {
        Self::collect(module, device, link, traffic, None)
    }

    /// The values of `module`: those that lie in buckets from `packed`, which is on `device`; what lies in none is moved there.
    pub(crate) fn take_packed<M: Module>(
        module: &M,
        device: &Device,
        layout: &'a Layout,
        packed: Packed,
        traffic: &Traffic,
    ) -> Self {
        let mut snapshot = Self::collect(module, device, Link::Leaf, traffic, Some(layout));
        snapshot.packed = Some((layout, packed));
        snapshot
    }

    fn collect<M: Module>(
        module: &M,
        device: &Device,
        link: Link,
        traffic: &Traffic,
        skip: Option<&Layout>,
    ) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.places.untied = untied(module);
        let mut collector = Collector {
            snapshot,
            device,
            link,
            traffic,
            skip,
        };
        module.visit(&mut collector);
        let mut snapshot = collector.snapshot;
        snapshot.places.seen.clear();
        snapshot
    }

    /// `module` with the values of this snapshot; values that the snapshot does not have stay.
    pub(crate) fn restore<M: Module>(mut self, module: M) -> M {
        module.map(&mut self)
    }

    fn known<T: Clone + 'static>(&mut self, id: ParamId) -> Option<T> {
        let key = self.places.next(id);
        self.tensors.get(&key)?.downcast_ref().cloned()
    }

    /// The value for `id`, from the bucket that it lies in, and kept: a second place of the same parameter gets the same leaf.
    fn unpacked<T: Clone + Send + 'static>(
        &mut self,
        id: ParamId,
        unpack: impl FnOnce(&Packed, &crate::layout::Place) -> Option<T>,
    ) -> Option<T> {
        let (layout, packed) = self.packed.as_ref()?;
        let value = unpack(packed, layout.places.get(&id)?)?;
        self.tensors.insert((id, 0), Box::new(value.clone()));
        Some(value)
    }
}

struct Collector<'a, 's> {
    snapshot: Snapshot<'s>,
    device: &'a Device,
    link: Link,
    traffic: &'a Traffic,
    skip: Option<&'a Layout>,
}

impl Collector<'_, '_> {
    /// Keep what `copy` makes of a parameter, unless it lies in a bucket or has been kept at another place.
    fn keep<T: Send + 'static>(&mut self, id: ParamId, copy: impl FnOnce(&Self) -> T) {
        let packed = self
            .skip
            .is_some_and(|layout| layout.places.contains_key(&id));
        let key = self.snapshot.places.next(id);
        if !packed && !self.snapshot.tensors.contains_key(&key) {
            let copy = copy(self);
            self.snapshot.tensors.insert(key, Box::new(copy));
        }
    }
}

impl ModuleVisitor for Collector<'_, '_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.keep(param.id, |this| {
            let tensor = param.base();
            let requires_grad = is_trainable(&tensor);
            let copy = this.traffic.to_device(tensor, this.device);
            match this.link {
                Link::Graph => copy,
                // Detached after the move: a move makes a non-leaf of any tensor that is on an autodiff device.
                Link::Leaf => leaf(copy.detach(), requires_grad),
            }
        });
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.keep(param.id, |this| {
            this.traffic.to_device(param.val(), this.device)
        });
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.keep(param.id, |this| {
            this.traffic.to_device(param.val(), this.device)
        });
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.snapshot.flags.insert(flag.id, flag.is_enabled());
    }
}

impl ModuleMapper for Snapshot<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = self.known(param.id).or_else(|| {
            self.unpacked(param.id, |packed, place| {
                Some(leaf(packed.float(place)?, place.requires_grad))
            })
        });
        replace(param, value)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let value = self
            .known(param.id)
            .or_else(|| self.unpacked(param.id, Packed::int));
        replace(param, value)
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        let value = self
            .known(param.id)
            .or_else(|| self.unpacked(param.id, Packed::bool));
        replace(param, value)
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        match self.flags.get(&flag.id) {
            Some(&enabled) if enabled != flag.is_enabled() => flag.with_value(enabled),
            _ => flag,
        }
    }
}

fn leaf<const D: usize>(tensor: Tensor<D>, requires_grad: bool) -> Tensor<D> {
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
