//! What JSON can say but a machine cannot be.

use super::{Inventory, InventorySource, MigDevice, PhysicalDevice};
use crate::VisibilityError;
use crate::shown::shortened;
use std::collections::HashSet;

/// A card splits into at most seven instances; the bound leaves room.
const MAX_MIG: usize = 64;
/// The longest text that a field may hold.
const MAX_TEXT: usize = 256;
/// The longest reason why there is no driver: it joins what several libraries said.
const MAX_REASON: usize = 1024;

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
    devices.iter().try_for_each(check_device)?;
    let versions = [&inventory.driver_version, &inventory.cuda_version];
    for version in versions.into_iter().flatten() {
        check_text("version", version, MAX_TEXT)?;
    }
    check_source(inventory)
}

/// A driver that is missing or refuses to start lists nothing, and one that starts lists whole devices.
fn check_source(inventory: &Inventory) -> Result<(), VisibilityError> {
    let contradiction = |what, value: &str, problem: &str| {
        Err(VisibilityError::InventoryInvalid {
            what,
            value: shortened(value),
            problem: problem.to_owned(),
        })
    };
    if let Some(reason) = &inventory.missing {
        check_text("missing", reason, MAX_REASON)?;
        if !inventory.devices.is_empty() {
            let problem =
                "says that there is no driver, but devices are listed; remove one of both";
            return contradiction("missing", reason, problem);
        }
    }
    if inventory.refused && !inventory.devices.is_empty() {
        let problem =
            "says that the driver did not start, but devices are listed; remove one of both";
        return contradiction("refused", "true", problem);
    }
    let split = inventory.devices.iter().any(|device| !device.is_whole());
    if inventory.source == InventorySource::Driver && split {
        let problem =
            "lists devices as programs see them, never cards in MIG mode; use \"nvml\" or \"file\"";
        return contradiction("source", "driver", problem);
    }
    Ok(())
}

fn check_device(device: &PhysicalDevice) -> Result<(), VisibilityError> {
    bounded("MIG devices", device.mig.len(), MAX_MIG)?;
    check_uuid(&device.uuid, "GPU-")?;
    check_text("name", &device.name, MAX_TEXT)?;
    let address = device.pci_address.as_deref().unwrap_or_default();
    check_text("PCI address", address, MAX_TEXT)?;
    device.mig.iter().try_for_each(check_mig)
}

fn check_mig(mig: &MigDevice) -> Result<(), VisibilityError> {
    check_text("name", &mig.name, MAX_TEXT)?;
    check_uuid(&mig.uuid, "MIG-")
}

/// A terminal obeys control characters, and the table prints names.
fn check_text(what: &'static str, text: &str, longest: usize) -> Result<(), VisibilityError> {
    bounded("characters of text", text.len(), longest)?;
    if text.chars().any(char::is_control) {
        return Err(VisibilityError::InventoryInvalid {
            what,
            value: shortened(text),
            problem: "has a control character; remove it".to_owned(),
        });
    }
    Ok(())
}

fn check_uuid(uuid: &str, prefix: &str) -> Result<(), VisibilityError> {
    bounded("characters of a UUID", uuid.len(), MAX_TEXT)?;
    let rest = uuid.strip_prefix(prefix).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '/';
    if rest.is_empty() || !rest.chars().all(plain) {
        return Err(VisibilityError::InventoryInvalid {
            what: "UUID",
            value: shortened(uuid),
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
                value: shortened(&value),
                problem,
            });
        }
    }
    Ok(())
}
