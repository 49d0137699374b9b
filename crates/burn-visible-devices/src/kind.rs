//! Which vendor's runtime is meant, and so which variables apply.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The runtime whose devices are listed.
///
/// It decides which environment variables are read, and nothing else: the rules are one code path.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::DeviceKind;
///
/// assert_eq!(DeviceKind::Cuda.mask_variables(), [&["CUDA_VISIBLE_DEVICES"][..]]);
/// assert_eq!(DeviceKind::Rocm.mask_variables()[0], ["ROCR_VISIBLE_DEVICES"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// NVIDIA cards, by the CUDA driver.
    Cuda,
    /// AMD cards, by ROCm.
    Rocm,
}

impl DeviceKind {
    /// The variables that mask devices: each group narrows the list that the group before it left, and within a
    /// group the first variable that is set counts.
    ///
    /// ROCm applies `ROCR_VISIBLE_DEVICES` first; `HIP_VISIBLE_DEVICES`, or its alias `CUDA_VISIBLE_DEVICES`, then
    /// counts within what is left. Source: ROCm documentation, "GPU isolation techniques" and "HIP environment
    /// variables".
    pub const fn mask_variables(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Cuda => &[&["CUDA_VISIBLE_DEVICES"]],
            Self::Rocm => &[
                &["ROCR_VISIBLE_DEVICES"],
                &["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"],
            ],
        }
    }

    /// The variable that sets the order in which devices are numbered, where the runtime has one.
    pub const fn order_variable(self) -> Option<&'static str> {
        match self {
            Self::Cuda => Some("CUDA_DEVICE_ORDER"),
            Self::Rocm => None,
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "CUDA",
            Self::Rocm => "ROCm",
        })
    }
}
