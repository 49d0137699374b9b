//! Reading an inventory from JSON.

use super::{Inventory, InventorySource, PhysicalDevice};
use crate::VisibilityError;
use crate::shown::one_line;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most bytes of JSON that are read.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    devices: Vec<PhysicalDevice>,
    #[serde(default)]
    driver_version: Option<String>,
    #[serde(default)]
    cuda_version: Option<String>,
    #[serde(default)]
    source: InventorySource,
    #[serde(default)]
    missing: Option<String>,
    #[serde(default)]
    refused: bool,
}

impl Inventory {
    /// Reads an inventory from JSON text; see [the format](Inventory#json).
    ///
    /// # Errors
    ///
    /// [`InventoryTooLarge`](VisibilityError::InventoryTooLarge) for more text or cards than an inventory may have,
    /// [`InventoryJson`](VisibilityError::InventoryJson) for text that is not such an object, and
    /// [`InventoryInvalid`](VisibilityError::InventoryInvalid) for repeats and values that cannot be.
    pub fn from_json(text: &str) -> Result<Self, VisibilityError> {
        check_size(text.len() as u64)?;
        let document: Document =
            serde_json::from_str(text).map_err(|source| VisibilityError::InventoryJson {
                reason: one_line(&source.to_string()),
            })?;
        let mut inventory = Self {
            devices: document.devices,
            driver_version: document.driver_version,
            cuda_version: document.cuda_version,
            source: document.source,
            missing: document.missing,
            refused: document.refused,
        };
        super::validate::validate(&inventory)?;
        inventory.devices.sort_by_key(|device| device.physical);
        Ok(inventory)
    }

    /// Reads an inventory from a JSON file.
    ///
    /// # Errors
    ///
    /// [`InventoryRead`](VisibilityError::InventoryRead) when the file cannot be read, and those of
    /// [`from_json`](Self::from_json).
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, VisibilityError> {
        let path = path.as_ref();
        let unreadable = |source| VisibilityError::InventoryRead {
            path: path.to_path_buf(),
            source,
        };
        let mut text = String::new();
        // One byte more than is accepted, so that a file without an end is refused too.
        let mut start = File::open(path).map_err(unreadable)?.take(MAX_BYTES + 1);
        start.read_to_string(&mut text).map_err(unreadable)?;
        Self::from_json(&text)
    }
}

fn check_size(bytes: u64) -> Result<(), VisibilityError> {
    if bytes > MAX_BYTES {
        return Err(VisibilityError::InventoryTooLarge {
            what: "bytes",
            found: bytes,
            limit: MAX_BYTES,
        });
    }
    Ok(())
}
