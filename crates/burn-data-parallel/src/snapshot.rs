//! A module's values on another device, and a mapper that puts them into a copy of the module.

use std::any::Any;
use std::collections::HashMap;

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Device, Int, Tensor, kind::Basic};

/// How the copies relate to the primary's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Leaves of their own: gradients arrive on the replica.
    Leaf,
    /// Results of the primary's parameters in the autodiff graph: gradients flow back to the primary.
    Graph,
}

/// Values by parameter id. A parameter that stands in several places (tied weights) is copied once and stays tied.
#[derive(Default)]
pub(crate) struct Snapshot {
    tensors: HashMap<ParamId, Box<dyn Any + Send>>,
    flags: HashMap<ParamId, bool>,
}

impl Snapshot {
    /// Copy the values of `module` to `device`.
    pub(crate) fn take<M: Module>(module: &M, device: &Device, link: Link) -> Self {
        let mut collector = Collector {
            snapshot: Snapshot::default(),
            device,
            link,
        };
        module.visit(&mut collector);
        collector.snapshot
    }

    /// `module` with the values of this snapshot; values that the snapshot does not have stay.
    pub(crate) fn restore<M: Module>(&self, module: M) -> M {
        module.map(&mut Restorer { snapshot: self })
    }

    fn tensor<const D: usize, K: Basic>(&self, id: ParamId) -> Option<Tensor<D, K>>
    where
        Tensor<D, K>: 'static,
    {
        self.tensors.get(&id)?.downcast_ref().cloned()
    }
}

struct Collector<'a> {
    snapshot: Snapshot,
    device: &'a Device,
    link: Link,
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (device, link) = (self.device, self.link);
        self.snapshot.tensors.entry(param.id).or_insert_with(|| {
            let tensor = param.base();
            let copy = match link {
                Link::Graph => tensor.to_device(device),
                // Detached last: a move makes a non-leaf of any tensor that is on an autodiff device.
                Link::Leaf => {
                    let requires_grad = tensor.is_require_grad();
                    let copy = tensor.to_device(device).detach();
                    if requires_grad {
                        copy.require_grad()
                    } else {
                        copy
                    }
                }
            };
            Box::new(copy)
        });
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let device = self.device;
        self.snapshot
            .tensors
            .entry(param.id)
            .or_insert_with(|| Box::new(param.val().to_device(device)));
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        let device = self.device;
        self.snapshot
            .tensors
            .entry(param.id)
            .or_insert_with(|| Box::new(param.val().to_device(device)));
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.snapshot.flags.insert(flag.id, flag.is_enabled());
    }
}

struct Restorer<'a> {
    snapshot: &'a Snapshot,
}

impl ModuleMapper for Restorer<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.snapshot.tensor(param.id) {
            Some(value) => replace(param, value),
            None => param,
        }
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        match self.snapshot.tensor(param.id) {
            Some(value) => replace(param, value),
            None => param,
        }
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        match self.snapshot.tensor(param.id) {
            Some(value) => replace(param, value),
            None => param,
        }
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        match self.snapshot.flags.get(&flag.id) {
            Some(&enabled) if enabled != flag.is_enabled() => flag.with_value(enabled),
            _ => flag,
        }
    }
}

/// `param` with another value; its id, its mappers for records and its configured trainability stay.
fn replace<T: burn::module::ParameterValue>(param: Param<T>, value: T) -> Param<T> {
    param.map(|_| value)
}
