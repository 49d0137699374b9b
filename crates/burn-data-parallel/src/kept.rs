//! A replica's module as it is kept between steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, GradientCheckpointingStrategy, Int, Tensor};

use crate::reading::{Reading, Traits};
use crate::replicas::Source;

/// Where a replica is kept between steps.
pub(crate) type Shelf<M> = Arc<Mutex<Option<Kept<M>>>>;

#[derive(Clone, Debug)]
pub(crate) struct Kept<M> {
    pub(crate) module: M,
    pub(crate) version: u64,
    pub(crate) reading: Arc<Reading>,
}

impl<M: Module> Kept<M> {
    /// What the last forward left pending in the copy's running statistics is dropped with their cell.
    pub(crate) fn private_module(&self) -> M {
        if changes(self.reading.traits) {
            private_copy(&self.module, self.reading.traits)
        } else {
            self.module.clone()
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a replica is renewed leaves its shelf empty, so the lock's poison says nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A replica before a step.
pub(crate) enum Found<M> {
    Current(M),
    Behind(Kept<M>),
}

/// The module of the copy at `shelf`, if it has the values of `version`.
pub(crate) fn current<M: Module>(shelf: &Shelf<M>, version: u64, reading: &Reading) -> Option<M> {
    match &*lock(shelf) {
        Some(copy) if copy.version == version && !changes(reading.traits) => {
            Some(copy.module.clone())
        }
        _ => None,
    }
}

/// The copy that is kept at `shelf`, or a new one where there is none of these parameters.
pub(crate) fn take<M: Module>(
    shelf: &Shelf<M>,
    source: &Source<'_, M>,
    reading: &Arc<Reading>,
    device: &Device,
) -> Kept<M> {
    match lock(shelf).take() {
        Some(copy) if copy.reading.has_parts_of(reading) => Kept {
            reading: reading.clone(),
            ..copy
        },
        _ => Kept {
            // Emptied first: its values come in buckets. `fork` would move each parameter by itself; what is left for it are
            // tensors that are no parameters.
            module: private_copy(source.module, reading.traits)
                .map(&mut Emptied { device })
                .fork(device),
            // Nobody's.
            version: u64::MAX,
            reading: reading.clone(),
        },
    }
}

/// Puts tensors of any values on `device` in the place of those on others.
struct Emptied<'a> {
    device: &'a Device,
}

impl ModuleMapper for Emptied<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let trains = param.is_require_grad();
        param.map(|tensor| {
            let (from, dtype) = (tensor.device(), tensor.dtype());
            // Quantized values have scales beside them.
            if from == *self.device || matches!(dtype, DType::QFloat(_)) {
                return tensor;
            }
            let device = self.device.clone().with_autodiff_context_from(&from);
            let empty = Tensor::empty(tensor.shape(), (&device, dtype));
            if trains { empty.require_grad() } else { empty }
        })
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param.map(|tensor| {
            let (from, dtype) = (tensor.device(), tensor.dtype());
            if from == *self.device {
                return tensor;
            }
            let device = self.device.clone().with_autodiff_context_from(&from);
            Tensor::empty(tensor.shape(), (&device, dtype))
        })
    }
}

/// In training buffers change inside forward, unseen by the version, so a module that has some is always renewed.
pub(crate) fn changes(traits: Traits) -> bool {
    traits.autodiff && traits.buffers
}

/// Whether a copy that gets buffers alone is right: `private_copy` makes new leaves, untied and with the default autodiff setting.
pub(crate) fn has_own_buffers(reading: &Reading) -> bool {
    let default = Some(GradientCheckpointingStrategy::default());
    changes(reading.traits)
        && reading.tied.is_empty()
        && reading.parts.iter().all(|part| part.context == default)
}

/// A copy of `module` that shares no running state with it, so that it can be moved and changed.
///
/// Burn's `RunningState` is one cell for all clones, and both `fork` and `map` write into that cell, so a plain clone would
/// let a replica overwrite the primary's BatchNorm statistics. `valid` is the one operation of `Module` that makes a new
/// cell; `train` takes back the rest of what it does. The values themselves come from a snapshot afterwards.
/// `tests/behaviour/batch_norm.rs` (`a_plain_clone_still_shares_running_state`) fails when this can go.
pub(crate) fn private_copy<M: Module>(module: &M, traits: Traits) -> M {
    if !traits.buffers {
        // Running state is a buffer, so there is none; and tensors that are no parameters keep their autodiff setting.
        return module.clone();
    }
    let copy = module.valid();
    if traits.autodiff { copy.train() } else { copy }
}
