//! One card, and the parts it may be split into.

use crate::PhysicalId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of a card's instruction set, such as 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeCapability {
    /// The number before the point.
    pub major: u32,
    /// The number after the point.
    pub minor: u32,
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One card of the machine. Only `physical` and `uuid` are required in JSON; see [`Inventory`](crate::Inventory).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhysicalDevice {
    /// The number that `nvidia-smi` gives the card.
    pub physical: PhysicalId,
    /// The card's UUID, `GPU-` and what follows.
    pub uuid: String,
    /// The product's name.
    #[serde(default)]
    pub name: String,
    /// The address on the PCI bus, such as `00000000:1A:00.0`.
    #[serde(default)]
    pub pci_address: Option<String>,
    /// Memory in bytes; 0 when it is not known.
    #[serde(default)]
    pub memory_total_bytes: u64,
    /// The compute capability, where known.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// The number of multiprocessors, where known.
    #[serde(default)]
    pub multiprocessors: Option<u32>,
    /// Place in the order `FASTEST_FIRST`, 0 being the fastest; equal ranks keep PCI order, and cards without one
    /// come last.
    #[serde(default)]
    pub speed_rank: Option<u32>,
    /// Whether the card is in MIG mode; a card with MIG devices always is.
    #[serde(default)]
    pub mig_enabled: bool,
    /// The MIG devices into which the card is split.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig: Vec<MigDevice>,
}

impl PhysicalDevice {
    /// Whether programs can use the card as a whole, that is, whether it is not in MIG mode.
    pub fn is_whole(&self) -> bool {
        self.mig.is_empty() && !self.mig_enabled
    }
}

/// A part of a card in MIG mode that programs see as one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigDevice {
    /// The part's own UUID, `MIG-` and what follows.
    pub uuid: String,
    /// The number of its GPU instance, where known.
    #[serde(default)]
    pub gpu_instance: Option<u32>,
    /// The number of its compute instance, where known.
    #[serde(default)]
    pub compute_instance: Option<u32>,
    /// Its name, such as `NVIDIA H200 MIG 1g.18gb`.
    #[serde(default)]
    pub name: String,
    /// Its memory in bytes; 0 when it is not known.
    #[serde(default)]
    pub memory_total_bytes: u64,
    /// Its number of multiprocessors, where known.
    #[serde(default)]
    pub multiprocessors: Option<u32>,
}
