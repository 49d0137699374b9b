//! Inventories out of bytes, such that UUIDs that begin alike, MIG devices and odd numbers are common.

use arbitrary::{Result, Unstructured};
use burn_visible_devices::Inventory;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The machines of `tests/data/inventories` that an input can name.
pub const FIXTURES: [&str; 12] = [
    "P1",
    "P2",
    "P4",
    "P8",
    "U8",
    "HET2",
    "HET7",
    "M2",
    "M4",
    "MIG-two-children",
    "MIG-instances",
    "MIG-beside-whole",
];

/// The fixture that the first byte numbers, or a machine built from the bytes, if it is accepted.
pub fn machine(bytes: &[u8]) -> Option<Inventory> {
    static READ: [OnceLock<Inventory>; 12] = [const { OnceLock::new() }; 12];
    let number = bytes.first().copied().map_or(usize::MAX, usize::from);
    let Some((name, read)) = FIXTURES.get(number).zip(READ.get(number)) else {
        let json = build(&mut Unstructured::new(bytes)).ok()?;
        return Inventory::from_json(&json.to_string()).ok();
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/inventories");
    let fixture = read.get_or_init(|| {
        Inventory::from_path(format!("{folder}/{name}.json")).expect("a fixture is an inventory")
    });
    Some(fixture.clone())
}

/// How many cards and MIG devices a machine may have.
struct Most {
    cards: usize,
    parts: usize,
}

fn build(bytes: &mut Unstructured) -> Result<Value> {
    // Larger machines cost the fuzzer its speed; the crate's tests have the largest.
    let most = match bytes.arbitrary::<u8>()? {
        224.. => Most {
            cards: 24,
            parts: 7,
        },
        _ => Most { cards: 9, parts: 3 },
    };
    let count = bytes.int_in_range(0..=most.cards)?;
    let first: u32 = *bytes.choose(&[0, 0, 0, 1, u32::MAX - 2000])?;
    let cards = (0..count).map(|index| {
        let parts = if rarely(bytes)? {
            bytes.int_in_range(0..=most.parts)?
        } else {
            0
        };
        card(bytes, first, index, parts)
    });
    let mut machine = json!({ "devices": cards.collect::<Result<Vec<_>>>()? });
    if rarely(bytes)? {
        machine["source"] = (*bytes.choose(&["file", "nvml", "driver", "kfd", "nothing"])?).into();
        machine["refused"] = bytes.arbitrary::<bool>()?.into();
    }
    if rarely(bytes)? {
        machine["missing"] = bytes.arbitrary::<&str>()?.into();
    }
    Ok(machine)
}

fn card(bytes: &mut Unstructured, first: u32, index: usize, parts: usize) -> Result<Value> {
    let mut card = json!({
        "physical": first as usize + index,
        "uuid": format!("GPU-{}", uuid(bytes, index)?),
        "memory_total_bytes": bytes.arbitrary::<u64>()?,
        "speed_rank": bytes.arbitrary::<Option<u8>>()?,
        "mig_enabled": rarely(bytes)?,
    });
    if rarely(bytes)? {
        card["name"] = bytes.arbitrary::<&str>()?.into();
        card["pci_address"] = bytes.arbitrary::<Option<&str>>()?.into();
    }
    let parts = (0..parts).map(|part| {
        let uuid = uuid(bytes, index * 64 + part)?;
        let instance = |bytes: &mut Unstructured| {
            bytes
                .choose(&[None, Some(0), Some(1), Some(2), Some(u32::MAX)])
                .copied()
        };
        Ok(json!({
            "uuid": format!("MIG-{uuid}"),
            "gpu_instance": instance(bytes)?,
            "compute_instance": instance(bytes)?,
        }))
    });
    card["mig"] = parts.collect::<Result<Vec<_>>>()?.into();
    Ok(card)
}

/// Digits that differ by `index` alone, some of them early, some of them late.
fn uuid(bytes: &mut Unstructured, index: usize) -> Result<String> {
    let start = *bytes.choose(&["", "0", "e", "47", "ffffffff-", "GPU-", "z", "-"])?;
    Ok(match bytes.int_in_range(0..=3)? {
        0 => format!("{start}{index:x}"),
        1 => format!("{start}{index:x}-0fdd-0E01-23811fdbd293"),
        2 => format!("{start}{index:08x}-0000-0000-0000-{index:012x}"),
        _ => format!("{start}{index:032x}"),
    })
}

/// Once in five times, and not when the bytes have run out.
fn rarely(bytes: &mut Unstructured) -> Result<bool> {
    Ok(bytes.arbitrary::<u8>()? % 5 == 4)
}
