//! What holds for any visible list.

use crate::printed;
use burn_visible_devices::{DriverOutcome, Inventory, VisibleDevices};
use std::collections::HashSet;

/// The list is a part of the machine, numbered from 0, no device twice, and as long as the driver is said to show.
pub fn check(visible: &VisibleDevices, inventory: &Inventory) {
    let mut seen = HashSet::new();
    for (device, number) in visible.devices().iter().zip(0..) {
        assert_eq!(
            (device.ordinal.get(), device.driver_ordinal),
            (number, number)
        );
        assert!(seen.insert(&device.uuid), "{} is there twice", device.uuid);
        let card = inventory
            .devices()
            .iter()
            .find(|card| card.physical == device.physical);
        let card = card.expect("a visible device is on a card of the machine");
        match &device.mig {
            Some(part) => assert!(card.mig.contains(part)),
            None => assert!(card.is_whole(), "a card in MIG mode is no device"),
        }
        assert_eq!(
            visible.device(device.ordinal).expect("it is visible"),
            device
        );
    }
    let parts = visible
        .devices()
        .iter()
        .filter(|device| device.mig.is_some())
        .count();
    assert!(
        parts == 0 || visible.device_count() == 1,
        "a MIG device is alone: {visible:?}"
    );
    let shown = match visible.outcome() {
        DriverOutcome::Ready { count } => *count,
        _ => 0,
    };
    assert_eq!(shown, visible.device_count(), "{visible:?}");
    let usable = inventory
        .devices()
        .iter()
        .any(|card| card.is_whole() || !card.mig.is_empty());
    assert!(
        visible.is_available() || !usable || !visible.diagnostics().is_empty(),
        "hidden in silence"
    );
    printed::check_message(visible.why());
    printed::check_plain(&visible.to_string());
    serde_json::to_string(visible).expect("it has a form as JSON");
}

/// What is odd is told in few words, each thing once.
pub fn check_diagnostics(visible: &VisibleDevices) {
    for odd in visible.diagnostics() {
        printed::check_message(&odd.to_string());
        assert!(odd.entry.chars().count() <= 83, "an entry is shortened");
        assert!(
            odd.first_position
                .is_none_or(|first| Some(first) < odd.position)
        );
        let cards: HashSet<_> = odd.candidates.iter().collect();
        assert_eq!(
            cards.len(),
            odd.candidates.len(),
            "a candidate twice: {odd}"
        );
    }
}
