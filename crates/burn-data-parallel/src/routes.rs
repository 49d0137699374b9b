//! Routes: how a tensor gets from one device to another.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, Tensor, kind::Basic};

static COPYING: Mutex<()> = Mutex::new(());

/// Held while copies between devices are issued, by whichever wrapper: those of two threads, in two orders, could wait for each
/// other for ever, since connections between cards are made when both ends have come to them
/// (<https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html>, "Using multiple NCCL communicators
/// concurrently").
pub(crate) fn copying() -> MutexGuard<'static, ()> {
    // It guards no data, so a panic of another holder says nothing.
    COPYING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Straight by Burn, or through the host between devices whose direct copies are known to go wrong.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    staged: Vec<(Device, Device)>,
    #[cfg(feature = "fault-injection")]
    faults: Option<crate::faults::Faults>,
}

impl Routes {
    /// Routes as they are in a wrapper that is made now.
    pub(crate) fn new() -> Self {
        Self {
            staged: Vec::new(),
            #[cfg(feature = "fault-injection")]
            faults: crate::faults::Faults::current(),
        }
    }

    /// Whether a test makes copies fail, so that what is found says nothing of the devices.
    pub(crate) fn has_faults(&self) -> bool {
        #[cfg(feature = "fault-injection")]
        return self.faults.is_some();
        #[cfg(not(feature = "fault-injection"))]
        false
    }

    /// Copies from `from` to `into` go through the host from now on.
    pub(crate) fn stage(&mut self, from: &Device, into: &Device) {
        let ends = (from.clone().inner(), into.clone().inner());
        if !self.staged.contains(&ends) {
            self.staged.push(ends);
        }
    }

    /// The first pair of `devices` between which copies go through the host.
    pub(crate) fn staged_among(&self, devices: &[Device]) -> Option<&(Device, Device)> {
        let used = |device: &Device| devices.iter().any(|used| used.clone().inner() == *device);
        self.staged
            .iter()
            .find(|(from, into)| used(from) && used(into))
    }

    /// `tensor` on `device`, which is another than its own.
    pub(crate) fn send<const D: usize, K: Basic>(
        &self,
        tensor: Tensor<D, K>,
        device: &Device,
    ) -> Tensor<D, K> {
        let from = tensor.device().inner();
        let ends = (from, device.clone().inner());
        if self.staged.contains(&ends) {
            // As `to_device` would have it: of the same type, and with the autodiff setting that it has.
            let dtype = tensor.dtype();
            let device = device.clone().with_autodiff_context_from(&tensor.device());
            return Tensor::from_data(tensor.into_data(), (&device, dtype));
        }
        #[cfg(feature = "fault-injection")]
        if let Some(faults) = &self.faults
            && faults.corrupts(&ends.0, &ends.1)
        {
            return tensor.to_device(device).zeros_like();
        }
        tensor.to_device(device)
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::tensor::{DType, Int};

    #[test]
    fn what_goes_through_the_host_keeps_type_values_and_autodiff_setting() {
        let device = Device::flex();
        let mut routes = Routes::new();
        routes.stage(&device, &device);
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let sent = Tensor::<1>::from_data([0.5, -2.0], (&device, dtype));
            for (sent, is_autodiff) in [(sent.clone(), false), (sent.autodiff(), true)] {
                // Whatever the setting of the device that is named.
                for into in [device.clone(), device.clone().autodiff()] {
                    let arrived = routes.send(sent.clone(), &into);
                    assert_eq!(arrived.dtype(), dtype);
                    assert_eq!(arrived.is_autodiff(), is_autodiff, "{dtype:?}");
                    assert_eq!(arrived.into_data(), sent.clone().into_data());
                }
            }
        }
        for dtype in [DType::I64, DType::I32, DType::I16, DType::U8] {
            let sent = Tensor::<1, Int>::from_data([1, 2], (&device, dtype));
            let arrived = routes.send(sent.clone(), &device);
            assert_eq!(arrived.dtype(), dtype);
            assert_eq!(arrived.into_data(), sent.into_data());
        }
    }
}
