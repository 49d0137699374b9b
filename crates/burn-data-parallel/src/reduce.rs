//! Reduce: sum the replicas' gradients onto the primary.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use crate::bucket::PackedGrads;
use crate::layout::Layout;
use crate::schedule::{Transfer, reduce_tree};
use crate::stats::Traffic;

/// The gradients of one replica.
pub(crate) enum Grads {
    /// As they are: all replicas are on the primary's device, nothing has to move.
    Plain(GradientsParams),
    /// In buckets.
    Packed(PackedGrads),
}

impl Grads {
    /// The gradients of a replica, multiplied by `factor` and packed by `layout` where there is one.
    pub(crate) fn of<M: Module>(
        replica: &M,
        grads: GradientsParams,
        factor: f64,
        layout: Option<&Layout>,
    ) -> Self {
        match layout {
            None => Grads::Plain(sum_plain(replica, vec![grads], factor)),
            Some(layout) => {
                let mut packed = PackedGrads::pack(replica, grads, layout);
                scale(&mut packed.flats, factor);
                Grads::Packed(packed)
            }
        }
    }
}

/// Sum the replicas' gradients on the first one's device, and multiply by `factor`.
///
/// A parameter that only some replicas used gets the sum of those: the others' gradient is zero. The order is fixed (plain
/// gradients from first to last, buckets as a binary tree), so the same step gives the same bits.
pub(crate) fn onto_primary<M: Module>(
    module: &M,
    parts: Vec<Grads>,
    devices: &[Device],
    factor: f64,
    layout: Option<&Layout>,
    traffic: &Traffic,
) -> GradientsParams {
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Grads::Plain(grads) => plain.push(grads),
            Grads::Packed(grads) => packed.push(grads),
        }
    }
    match layout {
        Some(layout) => sum_packed(module, packed, devices, factor, layout, traffic),
        None => sum_plain(module, plain, factor),
    }
}

fn sum_plain<M: Module>(
    module: &M,
    mut parts: Vec<GradientsParams>,
    factor: f64,
) -> GradientsParams {
    if parts.len() == 1 && factor == 1.0 {
        return parts.remove(0);
    }
    let mut sum = PlainSum {
        parts,
        factor,
        sum: GradientsParams::new(),
    };
    module.visit(&mut sum);
    sum.sum
}

struct PlainSum {
    parts: Vec<GradientsParams>,
    factor: f64,
    sum: GradientsParams,
}

impl ModuleVisitor for PlainSum {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let sum = self
            .parts
            .iter_mut()
            .filter_map(|part| part.remove::<D>(param.id))
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

fn sum_packed<M: Module>(
    module: &M,
    parts: Vec<PackedGrads>,
    devices: &[Device],
    factor: f64,
    layout: &Layout,
    traffic: &Traffic,
) -> GradientsParams {
    let mut present = HashSet::new();
    let mut flats = Vec::with_capacity(parts.len());
    for part in parts {
        present.extend(part.present);
        flats.push(part.flats);
    }
    for Transfer { from, into } in reduce_tree(flats.len()) {
        let given = std::mem::take(&mut flats[from]);
        let own = std::mem::take(&mut flats[into]);
        flats[into] = own
            .into_iter()
            .zip(given)
            .map(|(own, given)| own + traffic.to_device(given, &devices[into]))
            .collect();
    }
    let mut sum = flats.into_iter().next().unwrap_or_default();
    scale(&mut sum, factor);
    let mut unpack = Unpack {
        sum,
        layout,
        present,
        grads: GradientsParams::new(),
    };
    module.visit(&mut unpack);
    unpack.grads
}

fn scale(flats: &mut Vec<Tensor<1>>, factor: f64) {
    if factor != 1.0 {
        *flats = std::mem::take(flats)
            .into_iter()
            .map(|flat| flat.mul_scalar(factor))
            .collect();
    }
}

struct Unpack<'a> {
    sum: Vec<Tensor<1>>,
    layout: &'a Layout,
    present: HashSet<ParamId>,
    grads: GradientsParams,
}

impl ModuleVisitor for Unpack<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Removed, so that a parameter in two places is registered once.
        if !self.present.remove(&param.id) {
            return;
        }
        if let Some(place) = self.layout.places.get(&param.id) {
            let grad: Tensor<D> = self.sum[place.bucket]
                .clone()
                .narrow(0, place.offset, place.elements)
                .reshape(place.shape.clone());
            self.grads.register(param.id, grad);
        }
    }
}
