//! Running state: values that a module changes in forward.

use std::collections::HashSet;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

/// The float values of `module` that all its clones share in one cell, as Burn's `RunningState` does: those that `map` of a clone
/// changes in the original. Nothing in the visit of a module tells them from frozen parameters.
pub(crate) fn running_state<M: Module>(module: &M) -> HashSet<ParamId> {
    // The one operation of `Module` that makes new cells.
    let copy = module.valid();
    let mut shapes = Shapes::default();
    copy.visit(&mut shapes);
    drop(copy.clone().map(&mut Reshape));
    let mut changed = Shapes::default();
    copy.visit(&mut changed);
    let pairs = shapes.0.into_iter().zip(changed.0);
    pairs
        .filter(|(before, after)| before != after)
        .map(|((id, _), _)| id)
        .collect()
}

#[derive(Default)]
struct Shapes(Vec<(ParamId, Vec<usize>)>);

impl ModuleVisitor for Shapes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push((param.id, param.base().dims().to_vec()));
    }
}

/// Gives every float another shape, of one or two elements.
struct Reshape;

impl ModuleMapper for Reshape {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let mut shape = [1; D];
            if tensor.dims() == shape {
                shape[0] = 2;
            }
            Tensor::zeros(shape, (&tensor.device(), tensor.dtype()))
        })
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
    use burn::tensor::Device;

    #[derive(Module, Debug)]
    struct Net {
        linear: Linear,
        norm: BatchNorm,
    }

    #[test]
    fn statistics_are_running_state_and_frozen_parameters_are_not() {
        for width in [1, 3] {
            for device in [Device::flex(), Device::flex().autodiff()] {
                let net = Net {
                    linear: LinearConfig::new(1, width).init(&device),
                    norm: BatchNormConfig::new(width).init(&device),
                };
                let net = Net {
                    linear: net.linear.no_grad(),
                    ..net
                };
                let mut shapes = Shapes::default();
                net.visit(&mut shapes);
                let expected: HashSet<_> = shapes.0[4..].iter().map(|(id, _)| *id).collect();
                assert_eq!(expected.len(), 2);
                assert_eq!(running_state(&net), expected);
                let mut after = Shapes::default();
                net.visit(&mut after);
                assert_eq!(after.0, shapes.0, "the module itself is as it was");
            }
        }
    }
}
