//! What runs the devices.

use crate::{PeerLink, VisibleDevices, find_library, peer_access};
use serde::Serialize;
use std::path::PathBuf;

/// The versions and libraries that matter to a program on several devices.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{DeviceKind, RuntimeInfo, VisibleDevices};
///
/// let info = RuntimeInfo::of(&VisibleDevices::from_env(DeviceKind::Cuda));
/// println!("driver {}", info.driver_version.as_deref().unwrap_or("not found"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuntimeInfo {
    /// The version of the driver, where known.
    pub driver_version: Option<String>,
    /// The newest CUDA version that the driver supports, where known.
    pub cuda_version: Option<String>,
    /// The file that the loader takes for NCCL (RCCL on ROCm); `None` when there is none, and then copies between
    /// devices go through the host and collectives are not there.
    pub nccl: Option<PathBuf>,
    /// Peer access for every ordered pair of visible devices.
    pub peers: Vec<PeerLink>,
}

impl RuntimeInfo {
    /// Looks at this machine, for these devices. It creates no context on any of them.
    pub fn of(visible: &VisibleDevices) -> Self {
        let collectives = match visible.kind() {
            crate::DeviceKind::Cuda => "nccl",
            crate::DeviceKind::Rocm => "rccl",
        };
        Self {
            driver_version: visible.inventory().driver_version().map(str::to_owned),
            cuda_version: visible.inventory().cuda_version().map(str::to_owned),
            nccl: find_library(collectives),
            peers: peer_access(visible),
        }
    }
}
