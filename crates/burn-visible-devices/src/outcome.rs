//! What the driver would answer at start-up.

use serde::Serialize;
use std::fmt;

/// What the driver's start-up (`cuInit`, or HIP's, which uses the same numbers) makes of the environment.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{DriverOutcome, Inventory, VisibleDevices};
///
/// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
/// let inventory = Inventory::from_json(json)?;
/// let repeated = VisibleDevices::resolve(Some("0,0"), None, &inventory);
/// assert_eq!(repeated.outcome(), &DriverOutcome::InvalidDevice);
/// assert_eq!(repeated.outcome().code(), Some(101));
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer")]
#[non_exhaustive]
pub enum DriverOutcome {
    /// The driver starts and shows this many devices (code 0).
    Ready {
        /// How many devices the driver shows.
        count: usize,
    },
    /// The driver starts on no device (`CUDA_ERROR_NO_DEVICE`, 100).
    NoDevice,
    /// The driver refuses to start (`CUDA_ERROR_INVALID_DEVICE`, 101): a repeated device or an unknown order.
    InvalidDevice,
    /// There is no driver to ask.
    DriverMissing {
        /// What was looked for, and what failed.
        reason: String,
    },
}

impl DriverOutcome {
    /// The driver's error code, or `None` without a driver.
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::Ready { .. } => Some(0),
            Self::NoDevice => Some(100),
            Self::InvalidDevice => Some(101),
            Self::DriverMissing { .. } => None,
        }
    }
}

impl fmt::Display for DriverOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { count: 1 } => write!(f, "the driver shows 1 device"),
            Self::Ready { count } => write!(f, "the driver shows {count} devices"),
            Self::NoDevice => write!(f, "the driver answers 100 (no device)"),
            Self::InvalidDevice => write!(
                f,
                "the driver answers 101 (invalid device) and does not start"
            ),
            Self::DriverMissing { reason } => write!(f, "no driver: {reason}"),
        }
    }
}
