//! Any mask, any order, any machine: the lenient way of the environment and the strict one of a list in code.

use crate::{cards, list, printed};
use burn_visible_devices::{
    DeviceKind, DiagnosticKind, Environment, Inventory, InventorySource, VisibilityError,
    VisibleDevices,
};

/// As many bytes as the driver reads of a mask.
const LONGEST_MASK: usize = 2624;

/// `mask`, NUL, `order`, NUL, and the number of a fixture or the bytes of a machine. A mask that is `?` is unset.
pub fn mask(bytes: &[u8]) {
    let mut fields = bytes.splitn(3, |byte| *byte == 0);
    let mut text = || {
        let field = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        Some(field).filter(|field| field != "?")
    };
    let (mask, order) = (text(), text());
    let Some(inventory) = cards::machine(fields.next().unwrap_or_default()) else {
        return;
    };
    let (mask, order) = (mask.as_deref(), order.as_deref());

    let lenient = VisibleDevices::resolve(mask, order, &inventory);
    list::check(&lenient, &inventory);
    list::check_diagnostics(&lenient);
    assert_eq!(
        lenient,
        VisibleDevices::resolve(mask, order, &inventory),
        "not the same twice"
    );
    if let Some(mask) = mask {
        check_beginning(&lenient, mask, order, &inventory);
        check_strict(&lenient, mask, order, &inventory);
    }

    // The same two texts as the two masks of ROCm.
    let lookup = |name: &str| match name {
        "ROCR_VISIBLE_DEVICES" => mask.map(str::to_owned),
        "HIP_VISIBLE_DEVICES" => order.map(str::to_owned),
        _ => None,
    };
    let environment = Environment::from_lookup(DeviceKind::Rocm, lookup);
    let narrowed = VisibleDevices::resolve_environment(&environment, &inventory);
    list::check(&narrowed, &inventory);
    list::check_diagnostics(&narrowed);
}

/// The first invalid entry ends the list, and what stands before it is all that counts.
fn check_beginning(
    lenient: &VisibleDevices,
    mask: &str,
    order: Option<&str>,
    inventory: &Inventory,
) {
    let end = lenient
        .diagnostics()
        .iter()
        .find(|odd| ends_it(odd.kind))
        .and_then(|odd| odd.position);
    let Some(end) = end.filter(|end| *end > 0) else {
        return;
    };
    let beginning: Vec<&str> = mask.split(',').take(end).collect();
    let alone = VisibleDevices::resolve(Some(&beginning.join(",")), order, inventory);
    assert_eq!(
        (lenient.devices(), lenient.outcome()),
        (alone.devices(), alone.outcome())
    );
}

/// A list in code is the same list, or refused for the first thing that is odd in the environment.
fn check_strict(lenient: &VisibleDevices, mask: &str, order: Option<&str>, inventory: &Inventory) {
    let all = VisibleDevices::resolve(None, order, inventory);
    let strict = all.select_str(mask);
    match &strict {
        Ok(chosen) => {
            assert_eq!(chosen.device_count(), mask.split(',').count());
            printed::check_message(chosen.why());
            for (device, number) in chosen.devices().iter().zip(0..) {
                assert_eq!(device.ordinal.get(), number);
                let before = &all.devices()[device.driver_ordinal as usize];
                assert_eq!(
                    (&before.uuid, before.physical),
                    (&device.uuid, device.physical)
                );
            }
        }
        Err(error) => printed::check_message(&error.to_string()),
    }
    // MIG devices stand alone in the visible list but not before the mask; a driver's list is masked already.
    let comparable = inventory.source() != InventorySource::Driver
        && inventory.devices().iter().all(|card| card.is_whole())
        && mask.len() <= LONGEST_MASK
        && all.diagnostics().is_empty();
    if !comparable {
        return;
    }
    let odd = lenient.diagnostics().first();
    match strict {
        Ok(chosen) => {
            let cards = |visible: &VisibleDevices| -> Vec<_> {
                visible
                    .devices()
                    .iter()
                    .map(|device| device.physical)
                    .collect()
            };
            assert_eq!(cards(&chosen), cards(lenient));
            assert!(
                odd.is_none(),
                "accepted in code, odd in the environment: {odd:?}"
            );
        }
        Err(VisibilityError::EmptyList { .. }) => assert!(mask.trim().is_empty()),
        Err(error) => {
            assert_eq!(error.kind(), odd.map(|odd| odd.kind), "{error}");
        }
    }
}

fn ends_it(kind: DiagnosticKind) -> bool {
    use DiagnosticKind::*;
    matches!(
        kind,
        AmbiguousUuid
            | ContainerKeyword
            | EmptyEntry
            | MixedKinds
            | Negative
            | OutOfRange
            | Unparsable
            | UnknownUuid
            | Whitespace
    )
}
