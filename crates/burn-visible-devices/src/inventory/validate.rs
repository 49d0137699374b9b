//! What JSON can say but a machine cannot be.

use super::{Inventory, MigDevice, PhysicalDevice};
use crate::VisibilityError;
use std::collections::HashSet;

/// A card splits into at most seven instances; the bound leaves room.
const MAX_MIG: usize = 64;
/// The longest text that a field may hold.
const MAX_TEXT: usize = 256;

pub(super) fn validate(inventory: &Inventory) -> Result<(), VisibilityError> {
    let devices = &inventory.devices;
    bounded("devices", devices.len(), Inventory::MAX_DEVICES)?;
    unique(
        "physical id",
        devices.iter().map(|device| device.physical.to_string()),
    )?;
    let addresses = devices
        .iter()
        .filter_map(|device| device.pci_address.as_deref());
    unique("PCI address", addresses.map(str::to_ascii_lowercase))?;
    let uuids = devices.iter().flat_map(|device| {
        std::iter::once(&device.uuid).chain(device.mig.iter().map(|mig| &mig.uuid))
    });
    unique("UUID", uuids.map(|uuid| uuid.to_ascii_lowercase()))?;
    devices.iter().try_for_each(check_device)
}

fn check_device(device: &PhysicalDevice) -> Result<(), VisibilityError> {
    bounded("MIG devices", device.mig.len(), MAX_MIG)?;
    check_uuid(&device.uuid, "GPU-")?;
    let address = device.pci_address.as_deref().unwrap_or_default();
    bounded(
        "characters of text",
        device.name.len().max(address.len()),
        MAX_TEXT,
    )?;
    device.mig.iter().try_for_each(check_mig)
}

fn check_mig(mig: &MigDevice) -> Result<(), VisibilityError> {
    bounded("characters of text", mig.name.len(), MAX_TEXT)?;
    check_uuid(&mig.uuid, "MIG-")
}

fn check_uuid(uuid: &str, prefix: &str) -> Result<(), VisibilityError> {
    bounded("characters of a UUID", uuid.len(), MAX_TEXT)?;
    let rest = uuid.strip_prefix(prefix).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '/';
    if rest.is_empty() || !rest.chars().all(plain) {
        return Err(VisibilityError::InventoryInvalid {
            what: "UUID",
            value: uuid.to_owned(),
            problem: format!(
                "should be {prefix:?} followed by letters, digits and dashes, as `nvidia-smi -L` prints it"
            ),
        });
    }
    Ok(())
}

fn bounded(what: &'static str, found: usize, limit: usize) -> Result<(), VisibilityError> {
    if found > limit {
        return Err(VisibilityError::InventoryTooLarge {
            what,
            found: found as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}

fn unique(what: &'static str, values: impl Iterator<Item = String>) -> Result<(), VisibilityError> {
    let mut seen = HashSet::new();
    for value in values {
        if !seen.insert(value.clone()) {
            let problem = "is there twice; each card has its own".to_owned();
            return Err(VisibilityError::InventoryInvalid {
                what,
                value,
                problem,
            });
        }
    }
    Ok(())
}
