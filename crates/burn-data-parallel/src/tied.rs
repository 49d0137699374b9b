//! Tied weights: which places of one parameter belong together.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Gradients, Int, Tensor, TensorData};

/// For each of `repeated`, in order of visit, the number of the group that a place belongs to.
///
/// Trainable places belong together if they are one leaf of the autodiff graph; all others if their values are equal. Only
/// modules that have such parameters pay for it, with a read or a tiny backward pass.
pub(crate) fn tied_places<M: Module>(
    module: &M,
    repeated: HashSet<ParamId>,
) -> HashMap<ParamId, Vec<usize>> {
    let mut visitor = Visitor {
        groups: repeated
            .into_iter()
            .map(|id| (id, Groups::default()))
            .collect(),
    };
    module.visit(&mut visitor);
    let groups = visitor.groups.into_iter();
    groups.map(|(id, groups)| (id, groups.places)).collect()
}

/// The places of one parameter.
#[derive(Default)]
struct Groups {
    known: Vec<Mark>,
    places: Vec<usize>,
}

/// What the places of a group have in common.
enum Mark {
    /// Gradients of a sum of the leaf: a tensor that has one among them is that leaf.
    Leaf(Gradients),
    Values(TensorData),
}

impl Groups {
    fn add(&mut self, is_in: impl Fn(&Mark) -> bool, mark: impl FnOnce() -> Mark) {
        let found = self.known.iter().position(is_in);
        self.places.push(found.unwrap_or_else(|| {
            self.known.push(mark());
            self.known.len() - 1
        }));
    }

    fn add_values(&mut self, data: TensorData) {
        let is_in = |mark: &Mark| matches!(mark, Mark::Values(other) if *other == data);
        self.add(is_in, || Mark::Values(data.clone()));
    }
}

struct Visitor {
    groups: HashMap<ParamId, Groups>,
}

impl ModuleVisitor for Visitor {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(groups) = self.groups.get_mut(&param.id) else {
            return;
        };
        let tensor = param.base();
        if !param.is_require_grad() {
            return groups.add_values(tensor.into_data());
        }
        let is_in = |mark: &Mark| match mark {
            Mark::Leaf(grads) => tensor.grad(grads).is_some(),
            Mark::Values(_) => false,
        };
        groups.add(is_in, || Mark::Leaf(tensor.clone().sum().backward()));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if let Some(groups) = self.groups.get_mut(&param.id) {
            groups.add_values(param.val().into_data());
        }
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        if let Some(groups) = self.groups.get_mut(&param.id) {
            groups.add_values(param.val().into_data());
        }
    }
}
