//! Reduce: sum the replicas' gradients onto the primary.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use crate::bucket::PackedGrads;
use crate::error::Phase;
use crate::layout::Layout;
use crate::progress::Progress;
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
    /// The buckets, where there are some.
    pub(crate) fn into_packed(self) -> Option<PackedGrads> {
        match self {
            Grads::Plain(_) => None,
            Grads::Packed(grads) => Some(grads),
        }
    }

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

/// How gradients come to the primary: the devices of the replicas, and how their buckets are laid out if they have to move.
pub(crate) struct Reduce<'a> {
    pub(crate) devices: &'a [Device],
    pub(crate) layout: Option<&'a Layout>,
    pub(crate) traffic: &'a Traffic,
    pub(crate) progress: &'a Progress,
}

impl Reduce<'_> {
    /// Sum the replicas' gradients on the first one's device, and multiply by `factor`.
    ///
    /// A parameter that only some replicas used gets the sum of those: the others' gradient is zero. The order is fixed (plain
    /// gradients from first to last, buckets as a binary tree), so the same step gives the same bits.
    pub(crate) fn onto_primary<M: Module>(
        &self,
        module: &M,
        parts: Vec<Grads>,
        factor: f64,
    ) -> GradientsParams {
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Grads::Plain(grads) => plain.push(grads),
                Grads::Packed(grads) => packed.push(grads),
            }
        }
        // In a group of steps some may have had buckets and others not.
        let mut sums = Vec::new();
        if let Some(layout) = self.layout
            && !packed.is_empty()
        {
            sums.push(self.sum_packed(module, packed, factor, layout));
        }
        if !plain.is_empty() {
            self.progress.serve_all(Phase::Reduce);
            sums.push(sum_plain(module, plain, factor));
        }
        sum_plain(module, sums, 1.0)
    }

    fn sum_packed<M: Module>(
        &self,
        module: &M,
        parts: Vec<PackedGrads>,
        factor: f64,
        layout: &Layout,
    ) -> GradientsParams {
        let mut present = Vec::new();
        let mut flats = Vec::with_capacity(parts.len());
        for part in parts {
            present.extend(part.present);
            flats.push(part.flats);
        }
        let mut flats = sum_onto_first(flats, self.devices, self.traffic, self.progress);
        scale(&mut flats, factor);
        unpack(module, PackedGrads { flats, present }, layout)
    }
}

/// The sum of the replicas' buckets, on the first one's device.
pub(crate) fn sum_onto_first(
    mut flats: Vec<Vec<Tensor<1>>>,
    devices: &[Device],
    traffic: &Traffic,
    progress: &Progress,
) -> Vec<Tensor<1>> {
    for Transfer { from, into } in reduce_tree(flats.len()) {
        progress.serve(from, Phase::Reduce);
        let given = std::mem::take(&mut flats[from]);
        let own = std::mem::take(&mut flats[into]);
        flats[into] = own
            .into_iter()
            .zip(given)
            .map(|(own, given)| own + traffic.to_device(given, &devices[into]))
            .collect();
    }
    flats.into_iter().next().unwrap_or_default()
}

/// The gradients of the parameters of `module` that lie in these buckets.
pub(crate) fn unpack<M: Module>(
    module: &M,
    packed: PackedGrads,
    layout: &Layout,
) -> GradientsParams {
    let mut unpack = Unpack {
        sum: packed.flats,
        layout,
        present: packed.present.into_iter().collect(),
        grads: GradientsParams::new(),
    };
    module.visit(&mut unpack);
    unpack.grads
}

pub(crate) fn sum_plain<M: Module>(
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

pub(crate) fn scale(flats: &mut Vec<Tensor<1>>, factor: f64) {
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
            let grad: Tensor<D> = place.cut(&self.sum[place.bucket]);
            self.grads.register(param.id, grad);
        }
    }
}
