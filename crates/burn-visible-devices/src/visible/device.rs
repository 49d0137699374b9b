//! One entry of the visible list.

use crate::mask::Slot;
use crate::{ComputeCapability, Inventory, MigDevice, Ordinal, PhysicalId};
use serde::Serialize;

/// A device that the process may use.
///
/// As JSON it is an object with these fields, `mig` only where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VisibleDevice {
    /// Position in the visible list.
    pub ordinal: Ordinal,
    /// The number by which the driver, and so Burn's `Device::cuda(i)`, addresses the device. It differs from
    /// `ordinal` when a list in code has selected among the devices that the environment leaves.
    pub driver_ordinal: u32,
    /// The number of the card in `nvidia-smi`.
    pub physical: PhysicalId,
    /// The UUID of the device: the MIG device's own where it is one, the card's otherwise.
    pub uuid: String,
    /// The product's name.
    pub name: String,
    /// The card's address on the PCI bus, where known.
    pub pci_address: Option<String>,
    /// Memory in bytes; 0 when it is not known.
    pub memory_total_bytes: u64,
    /// The compute capability, where known.
    pub compute_capability: Option<ComputeCapability>,
    /// The number of multiprocessors, where known.
    pub multiprocessors: Option<u32>,
    /// The MIG device, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigDevice>,
    #[serde(skip)]
    pub(crate) slot: Slot,
}

impl VisibleDevice {
    pub(crate) fn new(number: u32, slot: Slot, inventory: &Inventory) -> Self {
        let card = slot.device(inventory);
        let part = slot.mig(inventory);
        let named = |part: &MigDevice| {
            if part.name.is_empty() {
                card.name.clone()
            } else {
                part.name.clone()
            }
        };
        Self {
            ordinal: Ordinal::from(number),
            driver_ordinal: number,
            physical: card.physical,
            uuid: part.map_or(&card.uuid, |part| &part.uuid).clone(),
            name: part.map_or_else(|| card.name.clone(), named),
            pci_address: card.pci_address.clone(),
            memory_total_bytes: part
                .map_or(card.memory_total_bytes, |part| part.memory_total_bytes),
            compute_capability: card.compute_capability,
            multiprocessors: part.map_or(card.multiprocessors, |part| part.multiprocessors),
            mig: part.cloned(),
            slot,
        }
    }
}
