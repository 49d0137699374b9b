//! Asking the machine.

use super::{Inventory, kfd, nvml};
use crate::DeviceKind;

impl Inventory {
    /// The cards of this machine. It creates no context on any card, and never fails: without a driver the list is
    /// empty and [`missing`](Self::missing) says why.
    ///
    /// NVIDIA cards come from NVML; where that is missing and the feature `cuda` is on, from the CUDA driver. AMD
    /// cards come from the Linux kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{DeviceKind, Inventory};
    ///
    /// let inventory = Inventory::detect(DeviceKind::Cuda);
    /// assert!(inventory.devices().is_empty() || inventory.missing().is_none());
    /// ```
    pub fn detect(kind: DeviceKind) -> Self {
        match kind {
            DeviceKind::Cuda => match nvml::inventory() {
                Ok(inventory) => inventory,
                Err(reason) => without_nvml(&reason),
            },
            DeviceKind::Rocm => {
                kfd::inventory(std::path::Path::new(kfd::NODES)).unwrap_or_else(Self::empty)
            }
        }
    }
}

#[cfg(feature = "cuda")]
fn without_nvml(nvml: &str) -> Inventory {
    super::driver::inventory()
        .unwrap_or_else(|driver| Inventory::empty(format!("NVML: {nvml}; CUDA driver: {driver}")))
}

#[cfg(not(feature = "cuda"))]
fn without_nvml(nvml: &str) -> Inventory {
    Inventory::empty(format!(
        "NVML: {nvml}; the CUDA driver was not asked (the feature `cuda` is off)"
    ))
}
