//! What an ordinal means: the list of devices before the mask, in the order of the driver.

use crate::{DeviceKind, Inventory, MigDevice, PhysicalDevice};

/// A device that a mask can select: a card, or a MIG device of a card, by their places in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    device: usize,
    mig: Option<usize>,
}

impl Slot {
    pub(crate) fn device(self, inventory: &Inventory) -> &PhysicalDevice {
        &inventory.devices()[self.device] // slots are made from this inventory alone
    }

    pub(crate) fn mig(self, inventory: &Inventory) -> Option<&MigDevice> {
        self.mig.map(|mig| &self.device(inventory).mig[mig])
    }

    pub(crate) fn is_mig(self) -> bool {
        self.mig.is_some()
    }
}

/// The order in which the driver numbers cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceOrder {
    FastestFirst,
    PciBusId,
}

impl DeviceOrder {
    /// The default of the runtime: CUDA puts the fastest card first.
    pub(crate) fn default_of(kind: DeviceKind) -> Self {
        match kind {
            DeviceKind::Cuda => Self::FastestFirst,
            DeviceKind::Rocm => Self::PciBusId,
        }
    }

    /// `None` for a value that the driver does not know: it takes these two spellings alone.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        match value {
            "FASTEST_FIRST" => Some(Self::FastestFirst),
            "PCI_BUS_ID" => Some(Self::PciBusId),
            _ => None,
        }
    }
}

/// Every device in the driver's order: whole cards first, then the MIG devices card by card. A card in MIG mode that
/// has no MIG device cannot be used and is left out.
pub(crate) fn slots(inventory: &Inventory, order: DeviceOrder) -> Vec<Slot> {
    let cards = inventory.devices();
    let mut places: Vec<usize> = (0..cards.len()).collect();
    if order == DeviceOrder::FastestFirst {
        places.sort_by_key(|place| cards[*place].speed_rank.unwrap_or(u32::MAX));
    }
    let whole = places.iter().filter(|place| cards[**place].is_whole());
    let whole = whole.map(|place| Slot {
        device: *place,
        mig: None,
    });
    let parts = places.iter().flat_map(|place| {
        (0..cards[*place].mig.len()).map(|mig| Slot {
            device: *place,
            mig: Some(mig),
        })
    });
    whole.chain(parts).collect()
}
