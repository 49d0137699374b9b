//! The visible list: what may be used, in which order, and why.

mod device;
#[cfg(feature = "cuda")]
mod driver_check;
mod lookup;
mod resolve;
mod select;
mod snapshot;
mod table;
mod variables;
mod why;

pub use device::VisibleDevice;
pub use snapshot::EnvironmentSnapshot;

use crate::shown::enumerated;
use crate::{DeviceKind, Diagnostic, DriverOutcome, Environment, Inventory};
use serde::Serialize;
use std::sync::Arc;

/// The devices that a process may use, in order.
///
/// It comes from the environment ([`from_env`](Self::from_env)), from values given as text
/// ([`resolve`](Self::resolve)), or from another list by selecting in code ([`select`](Self::select)).
///
/// As JSON: `{"kind":"cuda","visible":[...],"diagnostics":[...],"outcome":{...},"why":"..."}`, with the entries of
/// [`VisibleDevice`] and [`Diagnostic`].
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{Inventory, Ordinal, PhysicalId, VisibleDevices};
///
/// let inventory = Inventory::from_json(r#"{"devices": [
///     {"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000"},
///     {"physical": 1, "uuid": "GPU-10000000-0000-0000-0000-000000000000"},
///     {"physical": 2, "uuid": "GPU-20000000-0000-0000-0000-000000000000"}
/// ]}"#)?;
///
/// // The environment leaves cards 2 and 1, in this order; code swaps them again.
/// let visible = VisibleDevices::resolve(Some("2,1"), None, &inventory);
/// let chosen = visible.select([1, 0])?;
/// assert_eq!(chosen.physical_of(Ordinal::from(0))?, PhysicalId::from(1));
/// assert_eq!(chosen.ordinal_of(PhysicalId::from(2))?, Ordinal::from(1));
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VisibleDevices {
    kind: DeviceKind,
    #[serde(rename = "visible")]
    devices: Vec<VisibleDevice>,
    diagnostics: Vec<Diagnostic>,
    outcome: DriverOutcome,
    why: String,
    #[serde(skip)]
    environment: Environment,
    #[serde(skip)]
    inventory: Arc<Inventory>,
}

impl VisibleDevices {
    /// The devices, by ordinal.
    pub fn devices(&self) -> &[VisibleDevice] {
        &self.devices
    }

    /// What was odd about the environment, in order of position. None of it is an error by itself.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// What the driver's start-up answers under this environment.
    pub fn outcome(&self) -> &DriverOutcome {
        &self.outcome
    }

    /// One line for the log: which devices, and why these.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{Inventory, VisibleDevices};
    ///
    /// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
    /// let visible = VisibleDevices::resolve(None, None, &Inventory::from_json(json)?);
    /// assert_eq!(visible.why(), "CUDA_VISIBLE_DEVICES is unset: all 1 (physical 0)");
    /// # Ok::<(), burn_visible_devices::VisibilityError>(())
    /// ```
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The runtime whose devices these are.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Every card of the machine, visible or not.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The visible cards as text, physical -> ordinal.
    pub(crate) fn summary(&self) -> String {
        if self.devices.is_empty() {
            return format!("nothing, since {}", self.why);
        }
        let pairs = self
            .devices
            .iter()
            .map(|device| format!("{} -> {}", device.physical, device.ordinal));
        format!("{} (physical -> ordinal)", enumerated(pairs))
    }
}
