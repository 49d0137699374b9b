//! The cards of the machine, whatever the environment hides.

mod detect;
mod device;
#[cfg(feature = "cuda")]
pub(crate) mod driver;
mod json;
pub(crate) mod kfd;
pub(crate) mod nvml;
mod validate;

pub use device::{ComputeCapability, MigDevice, PhysicalDevice};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where an inventory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InventorySource {
    /// JSON: a file or a text.
    #[default]
    File,
    /// NVIDIA's management library, which knows every card whatever the environment says.
    Nvml,
    /// The CUDA driver, which knows only the cards that its mask leaves, in the order of the mask. Their physical
    /// ids are then the driver's numbers.
    Driver,
    /// The Linux kernel's list of AMD cards.
    Kfd,
    /// Nothing answered.
    Nothing,
}

impl fmt::Display for InventorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "JSON",
            Self::Nvml => "NVML",
            Self::Driver => "the CUDA driver",
            Self::Kfd => "the kernel (KFD)",
            Self::Nothing => "nothing",
        })
    }
}

/// Every card of the machine, in PCI order, with the versions of what runs them.
///
/// # JSON
///
/// An object with `devices`, and any of `driver_version`, `cuda_version`, `source`, `missing` and `refused`. A device needs
/// `physical` and `uuid`; the other fields of [`PhysicalDevice`] and [`MigDevice`] may be left out. Unknown fields,
/// repeated ids, UUIDs or PCI addresses, control characters, devices beside `missing` or `refused`, and more than
/// [`Inventory::MAX_DEVICES`] cards are errors.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{Inventory, PhysicalId};
///
/// let inventory = Inventory::from_json(r#"{
///     "driver_version": "580.65.06",
///     "devices": [
///         {
///             "physical": 0,
///             "uuid": "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1",
///             "name": "NVIDIA H200",
///             "pci_address": "00000000:1A:00.0",
///             "memory_total_bytes": 150754820096,
///             "compute_capability": {"major": 9, "minor": 0},
///             "multiprocessors": 132,
///             "speed_rank": 0
///         }
///     ]
/// }"#)?;
/// assert_eq!(inventory.devices()[0].physical, PhysicalId::from(0));
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    pub(crate) devices: Vec<PhysicalDevice>,
    pub(crate) driver_version: Option<String>,
    pub(crate) cuda_version: Option<String>,
    pub(crate) source: InventorySource,
    pub(crate) missing: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) refused: bool,
}

impl Inventory {
    /// The most cards that an inventory may list.
    pub const MAX_DEVICES: usize = 1024;

    /// An inventory without a card, and why.
    pub fn empty(reason: impl Into<String>) -> Self {
        Self {
            devices: Vec::new(),
            driver_version: None,
            cuda_version: None,
            source: InventorySource::Nothing,
            missing: Some(reason.into()),
            refused: false,
        }
    }

    /// The cards, by ascending physical id.
    pub fn devices(&self) -> &[PhysicalDevice] {
        &self.devices
    }

    /// The version of the driver, where known.
    pub fn driver_version(&self) -> Option<&str> {
        self.driver_version.as_deref()
    }

    /// The newest CUDA version that the driver supports, where known.
    pub fn cuda_version(&self) -> Option<&str> {
        self.cuda_version.as_deref()
    }

    /// Where the list comes from.
    pub fn source(&self) -> InventorySource {
        self.source
    }

    /// Whether the list comes from a driver that refused to start under the environment that it found (101).
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// Why there is no driver to list cards, if there is none.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}
