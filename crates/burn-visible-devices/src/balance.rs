//! Whether the devices of a list suit each other.

use crate::{Ordinal, VisibleDevice};
use serde::Serialize;
use std::fmt;

/// In which respect devices differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Respect {
    /// Bytes of memory.
    Memory,
    /// Number of multiprocessors.
    Multiprocessors,
}

/// A device has less than three quarters of what another one has, so that it holds the others up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImbalanceWarning {
    /// In which respect.
    pub respect: Respect,
    /// The device with the least.
    pub smallest: Ordinal,
    /// How much that is.
    pub least: u64,
    /// The device with the most.
    pub largest: Ordinal,
    /// How much that is.
    pub most: u64,
}

impl fmt::Display for ImbalanceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.respect {
            Respect::Memory => "bytes of memory",
            Respect::Multiprocessors => "multiprocessors",
        };
        write!(
            f,
            "the devices are unequal: {} has {} {what} and {} has {}, less than 75 %; leave {} out, or expect the \
             others to wait for it",
            self.largest, self.most, self.smallest, self.least, self.smallest
        )
    }
}

/// Warns when the least memory, or else the least number of multiprocessors, is under 75 % of the most.
///
/// One warning at most; memory comes first. Exactly 75 % is no reason to warn, and an unknown number is not compared.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{Inventory, VisibleDevices, imbalance};
///
/// let inventory = Inventory::from_json(r#"{"devices": [
///     {"physical": 0, "uuid": "GPU-00", "memory_total_bytes": 80000},
///     {"physical": 1, "uuid": "GPU-01", "memory_total_bytes": 24000}
/// ]}"#)?;
/// let visible = VisibleDevices::resolve(None, None, &inventory);
/// assert!(imbalance(visible.devices()).is_some());
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
pub fn imbalance(devices: &[VisibleDevice]) -> Option<ImbalanceWarning> {
    let memory =
        |device: &VisibleDevice| Some(device.memory_total_bytes).filter(|bytes| *bytes > 0);
    let multiprocessors = |device: &VisibleDevice| device.multiprocessors.map(u64::from);
    compare(Respect::Memory, devices, memory)
        .or_else(|| compare(Respect::Multiprocessors, devices, multiprocessors))
}

fn compare(
    respect: Respect,
    devices: &[VisibleDevice],
    amount: impl Fn(&VisibleDevice) -> Option<u64>,
) -> Option<ImbalanceWarning> {
    let known = || {
        devices
            .iter()
            .filter_map(|device| Some((device.ordinal, amount(device)?)))
    };
    let (smallest, least) = known().min_by_key(|(_, amount)| *amount)?;
    let (largest, most) = known().max_by_key(|(_, amount)| *amount)?;
    let unequal = u128::from(least) * 4 < u128::from(most) * 3;
    unequal.then_some(ImbalanceWarning {
        respect,
        smallest,
        least,
        largest,
        most,
    })
}
