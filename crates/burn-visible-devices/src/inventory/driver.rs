//! The CUDA driver itself: it knows only what its mask leaves, in that order. `cuInit` and the queries below create
//! no context.

use super::{Inventory, InventorySource, PhysicalDevice};
use crate::library::find_library;
use crate::{DriverOutcome, PhysicalId};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::CUresult;
use std::panic::catch_unwind;

/// What the driver answers: how it started, and each device's UUID and name in the driver's order.
pub(crate) struct DriverAnswer {
    pub(crate) outcome: DriverOutcome,
    pub(crate) devices: Vec<(String, String)>,
}

/// Starts the driver and asks it. A driver that is not there, or too old to have a function, is a reason.
pub(crate) fn ask() -> Result<DriverAnswer, String> {
    if find_library("cuda").is_none() && find_library("nvcuda").is_none() {
        return Err("libcuda is not in any folder of the dynamic loader".to_owned());
    }
    // cudarc panics when the library or one of its functions cannot be loaded.
    let answer = catch_unwind(|| match result::init() {
        Ok(()) => list().map(|devices| DriverAnswer {
            outcome: DriverOutcome::Ready {
                count: devices.len(),
            },
            devices,
        }),
        Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(failed(DriverOutcome::NoDevice)),
        Err(DriverError(CUresult::CUDA_ERROR_INVALID_DEVICE)) => {
            Ok(failed(DriverOutcome::InvalidDevice))
        }
        Err(other) => Err(other),
    });
    answer
        .map_err(|_| "libcuda was found but could not be loaded".to_owned())?
        .map_err(|DriverError(code)| format!("{code:?}"))
}

fn failed(outcome: DriverOutcome) -> DriverAnswer {
    DriverAnswer {
        outcome,
        devices: Vec::new(),
    }
}

fn list() -> Result<Vec<(String, String)>, DriverError> {
    (0..result::device::get_count()?)
        .map(|index| {
            let device = result::device::get(index)?;
            let bytes = result::device::get_uuid(device)?.bytes;
            Ok((
                uuid_text(bytes.map(|byte| byte as u8)),
                result::device::get_name(device)?,
            ))
        })
        .collect()
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

pub(super) fn inventory() -> Result<Inventory, String> {
    let answer = ask()?;
    let refused = answer.outcome == DriverOutcome::InvalidDevice;
    let devices = answer
        .devices
        .into_iter()
        .zip(0..)
        .map(|((uuid, name), index)| PhysicalDevice {
            physical: PhysicalId::from(index),
            uuid,
            name,
            pci_address: None,
            memory_total_bytes: 0,
            compute_capability: None,
            multiprocessors: None,
            speed_rank: None,
            mig_enabled: false,
            mig: Vec::new(),
        });
    Ok(Inventory {
        devices: devices.collect(),
        driver_version: None,
        cuda_version: None,
        source: InventorySource::Driver,
        missing: None,
        refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_prints_as_nvidia_smi_does() {
        let bytes = [
            0x99, 0x42, 0x19, 0x0a, 0xaa, 0x31, 0x4f, 0xf1, 0x4a, 0xa9, 0xc3, 0x88, 0xd8, 0x0f,
            0x85, 0xf1,
        ];
        assert_eq!(uuid_text(bytes), "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1");
    }
}
