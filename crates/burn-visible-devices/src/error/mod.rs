//! Everything that can fail, in one type.

mod oddity;

use crate::{DiagnosticKind, Ordinal, PhysicalId};
use std::path::PathBuf;
use thiserror::Error;

/// Why a list given in code, an inventory or a query was refused.
///
/// The messages say what was asked, what is there and what to do. In the variants about an entry of a list, `entry`
/// is the entry as written, `position` its place counted from 0, and `visible` what can be chosen from, written as
/// physical -> ordinal.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{Inventory, VisibilityError, VisibleDevices};
///
/// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
/// let visible = VisibleDevices::resolve(None, None, &Inventory::from_json(json)?);
/// let error = visible.select([0, 7]).unwrap_err();
/// assert!(matches!(error, VisibilityError::OutOfRange { position: 1, count: 1, .. }));
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VisibilityError {
    /// A list without an entry.
    #[error("the device list is empty; name at least one device of {visible}")]
    EmptyList {
        /// What is visible.
        visible: String,
    },
    /// An ordinal that no visible device has.
    #[error(
        "device {} (position {position} of the list) is not visible: {count} visible, {visible}; {problem}",
        entry.escape_debug()
    )]
    OutOfRange {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// How many devices are visible.
        count: usize,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// A device that is named twice.
    #[error(
        "device {} (position {position} of the list) is the one at position {first_position} again; name each device once; visible: {visible}",
        entry.escape_debug()
    )]
    Duplicate {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// Where the device was named first.
        first_position: usize,
        /// What is visible.
        visible: String,
    },
    /// The beginning of several UUIDs.
    #[error(
        "{entry:?} (position {position} of the list) is ambiguous: {problem}; visible: {visible}"
    )]
    AmbiguousUuid {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// The cards that it could mean.
        candidates: Vec<PhysicalId>,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// A number below zero.
    #[error(
        "{entry:?} (position {position} of the list) is no device: {problem}; visible: {visible}"
    )]
    Negative {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// An entry that is neither a number nor a UUID.
    #[error(
        "{entry:?} (position {position} of the list) is no device: {problem}; visible: {visible}"
    )]
    Unparsable {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// A UUID that no visible device has.
    #[error(
        "{entry:?} (position {position} of the list) is not visible: {problem}; visible: {visible}"
    )]
    UnknownUuid {
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// An entry that is refused for another oddity, which `kind` names.
    #[error(
        "{entry:?} (position {position} of the list) is refused ({kind}): {problem}; visible: {visible}"
    )]
    OddEntry {
        /// The kind of oddity.
        kind: DiagnosticKind,
        /// The entry.
        entry: String,
        /// Its position.
        position: usize,
        /// What is visible.
        visible: String,
        /// What is wrong, and the remedy.
        problem: String,
    },
    /// A query about an ordinal that is not in the list.
    #[error("device {ordinal} is not visible: {count} visible, {visible}{hint}")]
    NoSuchOrdinal {
        /// The ordinal that was asked for.
        ordinal: Ordinal,
        /// How many devices are visible.
        count: usize,
        /// What is visible.
        visible: String,
        /// The ordinal that was probably meant.
        hint: String,
    },
    /// A physical id that no visible card has.
    #[error("card {physical} is not visible: {visible}; put it into the mask, or use one of these")]
    NotVisible {
        /// The card that was asked for.
        physical: PhysicalId,
        /// What is visible.
        visible: String,
    },
    /// There is no driver.
    #[error(
        "no device can be listed: {reason}; install the driver, or use a backend that needs none"
    )]
    DriverMissing {
        /// What was looked for, and what failed.
        reason: String,
    },
    /// A question that the driver's library did not answer.
    #[error("{what} of device {ordinal} cannot be read: {reason}")]
    QueryFailed {
        /// What was asked.
        what: &'static str,
        /// The device.
        ordinal: Ordinal,
        /// The library's own words.
        reason: String,
    },
    /// An inventory file that cannot be read.
    #[error("the inventory {} cannot be read: {source}; check the path", path.display())]
    InventoryRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Text that is no inventory.
    #[error(
        "the inventory is not in the expected format: {reason}; see the documentation of `Inventory`"
    )]
    InventoryJson {
        /// What was expected, and where.
        reason: String,
    },
    /// More of something than an inventory may have.
    #[error("the inventory has {found} {what}, more than {limit}; is it the right file?")]
    InventoryTooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much of it.
        found: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// An inventory that no machine can have.
    #[error("the inventory's {what} {value:?} {problem}")]
    InventoryInvalid {
        /// Which field.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
}
