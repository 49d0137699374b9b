//! Memory of a device, read without a context on it.

use crate::inventory::nvml;
use crate::{VisibilityError, VisibleDevice};
use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use serde::Serialize;

/// How much memory a device has and how much is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// All of it, in bytes.
    pub total: u64,
    /// What no process uses, in bytes.
    pub free: u64,
    /// What this process uses, in bytes. `None` when the process is not in the driver's list: it then uses nothing
    /// there, or runs in a container whose process numbers the driver does not know.
    pub used_by_this_process: Option<u64>,
}

impl Memory {
    pub(crate) fn read(device: &VisibleDevice) -> Result<Self, VisibilityError> {
        let failed = |reason: String| VisibilityError::QueryFailed {
            what: "memory",
            ordinal: device.ordinal,
            reason,
        };
        let library = nvml::library().map_err(|reason| failed(format!("NVML: {reason}")))?;
        let card = library
            .device_by_uuid(device.uuid.as_str())
            .map_err(|error| failed(format!("NVML: {error}")))?;
        let found = card
            .memory_info()
            .map_err(|error| failed(format!("NVML: {error}")))?;
        Ok(Self {
            total: found.total,
            free: found.free,
            used_by_this_process: used_here(&card),
        })
    }
}

fn used_here(card: &Device<'_>) -> Option<u64> {
    let own = std::process::id();
    let processes = card.running_compute_processes().ok()?;
    processes
        .into_iter()
        .find(|process| process.pid == own)
        .and_then(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        })
}
