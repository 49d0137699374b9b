//! Routes: how a tensor gets from one device to another.

use burn::tensor::{Device, Tensor, kind::Basic};

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
            return Tensor::from_data(tensor.into_data(), device);
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
