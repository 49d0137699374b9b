//! AMD cards as the Linux kernel lists them, one folder a node under `/sys/class/kfd`; reading it opens no card.
//!
//! Source: the kernel's KFD topology (`drivers/gpu/drm/amd/amdkfd/kfd_topology.c`). Nodes without SIMD units are
//! processors. This file has been tried on written-out folders, not on a machine with AMD cards.

use super::{Inventory, InventorySource, PhysicalDevice};
use crate::PhysicalId;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

pub(super) const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

pub(super) fn inventory(nodes: &Path) -> Result<Inventory, String> {
    let listed = fs::read_dir(nodes)
        .map_err(|error| format!("no AMD driver: {}: {error}", nodes.display()))?;
    let mut numbered: Vec<(u32, _)> = listed
        .flatten()
        .filter_map(|node| Some((node.file_name().to_str()?.parse().ok()?, node.path())))
        .collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    let mut devices: Vec<PhysicalDevice> = Vec::new();
    for (_, folder) in numbered.iter().take(Inventory::MAX_DEVICES) {
        let physical = PhysicalId::from(u32::try_from(devices.len()).unwrap_or(u32::MAX));
        devices.extend(describe(folder, physical));
    }
    let driver_version = fs::read_to_string("/sys/module/amdgpu/version").ok();
    Ok(Inventory {
        devices,
        driver_version: driver_version.map(|version| version.trim().to_owned()),
        cuda_version: None,
        source: InventorySource::Kfd,
        missing: None,
        refused: false,
    })
}

fn describe(folder: &Path, physical: PhysicalId) -> Option<PhysicalDevice> {
    let properties = numbers(&folder.join("properties"));
    let value = |name: &str| properties.get(name).copied().unwrap_or_default();
    let simds = value("simd_count");
    if simds == 0 {
        return None;
    }
    let location = value("location_id");
    let (bus, device, function) = (location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
    let name = fs::read_to_string(folder.join("name")).unwrap_or_default();
    let units = simds.checked_div(value("simd_per_cu"));
    Some(PhysicalDevice {
        physical,
        uuid: format!("GPU-{:016x}", value("unique_id")),
        name: name.trim().to_owned(),
        pci_address: Some(format!(
            "{:08X}:{bus:02X}:{device:02X}.{function}",
            value("domain")
        )),
        memory_total_bytes: memory(&folder.join("mem_banks")),
        compute_capability: None,
        multiprocessors: units.and_then(|units| u32::try_from(units).ok()),
        speed_rank: None,
        mig_enabled: false,
        mig: Vec::new(),
    })
}

fn memory(banks: &Path) -> u64 {
    let folders = fs::read_dir(banks).into_iter().flatten().flatten();
    folders
        .filter_map(|bank| {
            numbers(&bank.path().join("properties"))
                .get("size_in_bytes")
                .copied()
        })
        .fold(0, u64::saturating_add)
}

/// A file of lines, each a name and a number.
fn numbers(path: &Path) -> HashMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_driver_gives_the_reason() {
        let reason = inventory(Path::new("/nowhere/at/all")).expect_err("no such folder");
        assert!(reason.contains("/nowhere/at/all"), "{reason}");
    }

    #[test]
    fn processors_are_left_out_and_cards_are_numbered_in_order() {
        let root = std::env::temp_dir().join(format!("kfd-nodes-{}", std::process::id()));
        for (node, properties) in [
            ("0", "cpu_cores_count 8\nsimd_count 0\n"),
            (
                "10",
                "simd_count 440\nsimd_per_cu 4\nunique_id 255\nlocation_id 25856\ndomain 0\n",
            ),
            (
                "2",
                "simd_count 440\nsimd_per_cu 4\nunique_id 16\nlocation_id 25600\ndomain 0\n",
            ),
        ] {
            let bank = root.join(node).join("mem_banks/0");
            fs::create_dir_all(&bank).expect("a temporary folder can be made");
            fs::write(root.join(node).join("properties"), properties).expect("and written");
            fs::write(bank.join("properties"), "heap_type 1\nsize_in_bytes 1024\n")
                .expect("and written");
        }
        let found = inventory(&root).expect("the folder is there");
        fs::remove_dir_all(&root).expect("the folder is ours");
        let [first, second] = found.devices() else {
            panic!("two cards: {found:?}")
        };
        assert_eq!(
            (first.uuid.as_str(), first.physical),
            ("GPU-0000000000000010", PhysicalId::from(0))
        );
        assert_eq!(
            (second.uuid.as_str(), second.physical),
            ("GPU-00000000000000ff", PhysicalId::from(1))
        );
        assert_eq!(first.pci_address.as_deref(), Some("00000000:64:00.0"));
        assert_eq!(
            (first.multiprocessors, first.memory_total_bytes),
            (Some(110), 1024)
        );
    }
}
