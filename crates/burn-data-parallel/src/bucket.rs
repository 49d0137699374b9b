//! Buckets: many tensors laid out as one flat buffer, so that they move in one transfer.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Device, Int, Tensor, kind::Basic};

use crate::layout::{Layout, Place};
use crate::reading::Kind;
use crate::stats::Traffic;

/// One packed bucket.
#[derive(Clone, Debug)]
pub(crate) enum Flat {
    Float(Tensor<1>),
    Int(Tensor<1, Int>),
    Bool(Tensor<1, Bool>),
}

impl Flat {
    /// Move to `device`. Bools travel as ints: NCCL, as cubecl uses it, has no type for them.
    fn to_device(&self, device: &Device, traffic: &Traffic) -> Self {
        match self {
            Flat::Float(flat) => Flat::Float(traffic.to_device(flat.clone(), device)),
            Flat::Int(flat) => Flat::Int(traffic.to_device(flat.clone(), device)),
            Flat::Bool(flat) => Flat::Bool(traffic.to_device(flat.clone().int(), device).bool()),
        }
    }
}

/// The values of a module, packed.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    flats: Vec<Flat>,
}

impl Packed {
    /// Pack the values of `module` on its own device.
    pub(crate) fn values<M: Module>(module: &M, layout: &Layout) -> Self {
        let mut parts = Parts {
            layout,
            floats: HashMap::new(),
            ints: HashMap::new(),
            bools: HashMap::new(),
        };
        module.visit(&mut parts);
        let flats = layout
            .buckets
            .iter()
            .map(|bucket| match bucket.kind {
                Kind::Float => Flat::Float(join(&bucket.members, &mut parts.floats)),
                Kind::Int => Flat::Int(join(&bucket.members, &mut parts.ints)),
                Kind::Bool => Flat::Bool(join(&bucket.members, &mut parts.bools)),
            })
            .collect();
        Self { flats }
    }

    pub(crate) fn to_device(&self, device: &Device, traffic: &Traffic) -> Self {
        Self {
            flats: self
                .flats
                .iter()
                .map(|flat| flat.to_device(device, traffic))
                .collect(),
        }
    }

    pub(crate) fn float<const D: usize>(&self, place: &Place) -> Option<Tensor<D>> {
        match self.flats.get(place.bucket)? {
            Flat::Float(flat) => Some(place.cut_value(flat)),
            _ => None,
        }
    }

    pub(crate) fn int<const D: usize>(&self, place: &Place) -> Option<Tensor<D, Int>> {
        match self.flats.get(place.bucket)? {
            Flat::Int(flat) => Some(place.cut_value(flat)),
            _ => None,
        }
    }

    pub(crate) fn bool<const D: usize>(&self, place: &Place) -> Option<Tensor<D, Bool>> {
        match self.flats.get(place.bucket)? {
            Flat::Bool(flat) => Some(place.cut_value(flat)),
            _ => None,
        }
    }
}

/// The members of one bucket, side by side; `parts` holds each of them.
fn join<K: Basic>(members: &[ParamId], parts: &mut HashMap<ParamId, Tensor<1, K>>) -> Tensor<1, K> {
    let mut tensors: Vec<_> = members.iter().filter_map(|id| parts.remove(id)).collect();
    if tensors.len() == 1 {
        tensors.remove(0)
    } else {
        Tensor::cat(tensors, 0)
    }
}

struct Parts<'a> {
    layout: &'a Layout,
    floats: HashMap<ParamId, Tensor<1>>,
    ints: HashMap<ParamId, Tensor<1, Int>>,
    bools: HashMap<ParamId, Tensor<1, Bool>>,
}

impl ModuleVisitor for Parts<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(place) = self.layout.places.get(&param.id) {
            // Without autodiff, so that packing is not recorded.
            let flat = param.base().inner().reshape([place.elements]);
            self.floats.insert(param.id, flat);
        }
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if let Some(place) = self.layout.places.get(&param.id) {
            let flat = param.val().inner().reshape([place.elements]);
            self.ints.insert(param.id, flat);
        }
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        if let Some(place) = self.layout.places.get(&param.id) {
            let flat = param.val().inner().reshape([place.elements]);
            self.bools.insert(param.id, flat);
        }
    }
}

/// The gradients of one replica, packed, and which parameters have one.
pub(crate) struct PackedGrads {
    pub(crate) flats: Vec<Tensor<1>>,
    pub(crate) present: Vec<ParamId>,
}

impl PackedGrads {
    /// Pack `grads` on the device of `replica`; a parameter without one lies there as zeros.
    pub(crate) fn pack<M: Module>(replica: &M, grads: GradientsParams, layout: &Layout) -> Self {
        let mut parts = GradParts {
            layout,
            grads,
            parts: HashMap::new(),
            present: Vec::new(),
        };
        replica.visit(&mut parts);
        let flats = layout
            .buckets
            .iter()
            .map(|bucket| join(&bucket.members, &mut parts.parts))
            .collect();
        Self {
            flats,
            present: parts.present,
        }
    }

    /// The sum of two replicas' gradients, which are on one device and laid out alike.
    pub(crate) fn add(mut self, other: Self) -> Self {
        let flats = self.flats.into_iter().zip(other.flats);
        self.flats = flats.map(|(own, other)| own + other).collect();
        self.present.extend(other.present);
        self
    }
}

struct GradParts<'a> {
    layout: &'a Layout,
    grads: GradientsParams,
    parts: HashMap<ParamId, Tensor<1>>,
    present: Vec<ParamId>,
}

impl ModuleVisitor for GradParts<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(place) = self.layout.places.get(&param.id) else {
            return;
        };
        let flat = match self.grads.remove::<D>(param.id) {
            Some(grad) => {
                self.present.push(param.id);
                grad.reshape([place.elements])
            }
            // A parameter in two places has its gradient from the first visit.
            None if self.parts.contains_key(&param.id) => return,
            None => param.base().inner().zeros_like().reshape([place.elements]),
        };
        self.parts.insert(param.id, flat);
    }
}
