//! Reduce: sum the replicas' gradients onto the primary.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

/// Sum the replicas' gradients on `device`, in order of the replicas, and multiply by `factor`.
///
/// A parameter that only some replicas used gets the sum of those: the others' gradient is zero. The order is fixed, so the
/// same step gives the same bits.
pub(crate) fn onto_primary<M: Module>(
    module: &M,
    mut parts: Vec<GradientsParams>,
    device: &Device,
    factor: f64,
) -> GradientsParams {
    if parts.len() == 1 && factor == 1.0 {
        return parts.remove(0);
    }
    let mut reducer = Reducer {
        parts,
        device,
        factor,
        sum: GradientsParams::new(),
    };
    module.visit(&mut reducer);
    reducer.sum
}

/// `grads` multiplied by `factor`, where they are.
pub(crate) fn scaled<M: Module>(
    module: &M,
    grads: GradientsParams,
    factor: f64,
) -> GradientsParams {
    let device = module.devices().into_iter().next();
    match device {
        Some(device) if factor != 1.0 => onto_primary(module, vec![grads], &device, factor),
        _ => grads,
    }
}

struct Reducer<'a> {
    parts: Vec<GradientsParams>,
    device: &'a Device,
    factor: f64,
    sum: GradientsParams,
}

impl ModuleVisitor for Reducer<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let sum = self
            .parts
            .iter_mut()
            .filter_map(|part| part.remove::<D>(param.id))
            .map(|grad| grad.to_device(self.device))
            .reduce(|sum, grad| sum + grad);
        if let Some(sum) = sum {
            let sum = if self.factor == 1.0 {
                sum
            } else {
                sum.mul_scalar(self.factor)
            };
            self.sum.register(param.id, sum);
        }
    }
}
