//! NVIDIA's management library: every card, whatever the environment says, and no context on any of them.

use super::{ComputeCapability, Inventory, InventorySource, MigDevice, PhysicalDevice};
use crate::PhysicalId;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};
use std::sync::OnceLock;

/// The library, loaded once for the life of the process, or why it cannot be used.
pub(crate) fn library() -> Result<&'static Nvml, String> {
    static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| Nvml::init().map_err(|error| error.to_string()));
    loaded.as_ref().map_err(Clone::clone)
}

pub(super) fn inventory() -> Result<Inventory, String> {
    let nvml = library()?;
    list(nvml).map_err(|error| error.to_string())
}

fn list(nvml: &Nvml) -> Result<Inventory, NvmlError> {
    let mut devices = Vec::new();
    let mut speeds = Vec::new();
    for index in 0..nvml.device_count()? {
        let card = nvml.device_by_index(index);
        match card.and_then(|card| Ok((describe(&card, index)?, speed(&card)))) {
            Ok((device, speed)) => {
                devices.push(device);
                speeds.push(speed);
            }
            // One card that fell off the bus, or that this user may not see, must not hide the others.
            Err(error) => log::warn!("card {index} is left out: NVML: {error}"),
        }
    }
    rank(&mut devices, &speeds);
    let version = nvml.sys_cuda_driver_version().ok();
    Ok(Inventory {
        devices,
        driver_version: nvml.sys_driver_version().ok(),
        cuda_version: version.map(|v| {
            format!(
                "{}.{}",
                cuda_driver_version_major(v),
                cuda_driver_version_minor(v)
            )
        }),
        source: InventorySource::Nvml,
        missing: None,
        refused: false,
    })
}

fn describe(card: &Device<'_>, index: u32) -> Result<PhysicalDevice, NvmlError> {
    let capability = card
        .cuda_compute_capability()
        .ok()
        .map(|found| ComputeCapability {
            major: u32::try_from(found.major).unwrap_or_default(),
            minor: u32::try_from(found.minor).unwrap_or_default(),
        });
    let mig_enabled = card.mig_mode().is_ok_and(|mode| mode.current == 1);
    Ok(PhysicalDevice {
        physical: PhysicalId::from(index),
        uuid: card.uuid()?,
        name: card.name().unwrap_or_default(),
        pci_address: card.pci_info().ok().map(|pci| pci.bus_id),
        memory_total_bytes: card
            .memory_info()
            .map(|memory| memory.total)
            .unwrap_or_default(),
        compute_capability: capability,
        multiprocessors: multiprocessors(card, capability),
        speed_rank: None,
        mig_enabled,
        mig: if mig_enabled { parts(card) } else { Vec::new() },
    })
}

/// The MIG devices of a card. NVML answers "not found" for the places that hold none.
fn parts(card: &Device<'_>) -> Vec<MigDevice> {
    let places = card.mig_device_count().unwrap_or_default();
    let found = (0..places).filter_map(|place| card.mig_device_by_index(place).ok());
    found
        .filter_map(|part| {
            let attributes = part.attributes().ok();
            Some(MigDevice {
                uuid: part.uuid().ok()?,
                gpu_instance: None,
                compute_instance: None,
                name: part.name().unwrap_or_default(),
                memory_total_bytes: part
                    .memory_info()
                    .map(|memory| memory.total)
                    .unwrap_or_default(),
                multiprocessors: attributes.map(|found| found.multiprocessor_count),
            })
        })
        .collect()
}

/// NVML counts cores, not multiprocessors, on a whole card.
fn multiprocessors(card: &Device<'_>, capability: Option<ComputeCapability>) -> Option<u32> {
    let cores = card.num_cores().ok()?;
    Some(cores / cores_per_multiprocessor(capability?)?)
}

/// From the table of compute capabilities in the CUDA programming guide (32-bit floating-point cores).
fn cores_per_multiprocessor(capability: ComputeCapability) -> Option<u32> {
    match (capability.major, capability.minor) {
        (6, 0) | (7, _) | (8, 0) => Some(64),
        (5 | 6, _) | (8..=12, _) => Some(128),
        _ => None,
    }
}

/// Cores times clock: a stand-in for the driver's own heuristic, which is not documented.
fn speed(card: &Device<'_>) -> Option<u64> {
    let clock = card.max_clock_info(Clock::SM).ok()?;
    Some(u64::from(card.num_cores().ok()?) * u64::from(clock))
}

/// Gives equal cards equal ranks, so that they keep PCI order.
fn rank(devices: &mut [PhysicalDevice], speeds: &[Option<u64>]) {
    let mut distinct: Vec<u64> = speeds.iter().flatten().copied().collect();
    distinct.sort_unstable_by(|a, b| b.cmp(a));
    distinct.dedup();
    for (device, speed) in devices.iter_mut().zip(speeds) {
        let place = speed.and_then(|speed| distinct.iter().position(|other| *other == speed));
        device.speed_rank = place.and_then(|place| u32::try_from(place).ok());
    }
}
