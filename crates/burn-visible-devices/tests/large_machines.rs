//! The largest machine that an inventory may describe, in little time and few words.

use burn_visible_devices::{DiagnosticKind, DriverOutcome, Inventory, VisibleDevices};
use std::time::{Duration, Instant};

/// Far above what a list needs, far below what a step for each pair of devices takes.
const SLOW: Duration = Duration::from_secs(20);

fn machine(parts: usize) -> Inventory {
    let card = |card: usize| {
        let part = |part: usize| format!(r#"{{"uuid": "MIG-{card:04x}{part:02x}"}}"#);
        let parts: Vec<String> = (0..parts).map(part).collect();
        let parts = parts.join(",");
        format!(r#"{{"physical": {card}, "uuid": "GPU-{card:04x}", "mig": [{parts}]}}"#)
    };
    let cards: Vec<String> = (0..Inventory::MAX_DEVICES).map(card).collect();
    let json = format!(r#"{{"devices": [{}]}}"#, cards.join(","));
    Inventory::from_json(&json).expect("as large as it may be")
}

#[test]
fn uuids_are_looked_up_in_time_that_grows_with_the_devices_alone() {
    let started = Instant::now();
    let inventory = machine(64);
    let mask: Vec<String> = (0..260).map(|card| format!("GPU-{card:04x}")).collect();
    let visible = VisibleDevices::resolve(Some(&mask.join(",")), None, &inventory);
    assert_eq!(visible.outcome(), &DriverOutcome::Ready { count: 1 });
    assert!(started.elapsed() < SLOW, "{:?}", started.elapsed());
}

#[test]
fn lists_in_messages_end_after_some_entries() {
    let visible = VisibleDevices::resolve(None, None, &machine(0));
    assert_eq!(visible.device_count(), Inventory::MAX_DEVICES);
    let refused = visible.select([5000]).expect_err("there are fewer");
    let ambiguous = VisibleDevices::resolve(Some("GPU-0"), None, &machine(0));
    let odd = &ambiguous.diagnostics()[0];
    assert_eq!(odd.kind, DiagnosticKind::AmbiguousUuid);
    assert_eq!(odd.candidates.len(), Inventory::MAX_DEVICES);
    for message in [
        visible.why().to_owned(),
        refused.to_string(),
        odd.to_string(),
    ] {
        assert!(message.len() < 1000, "{message}");
        assert!(message.contains("and 992 more"), "{message}");
    }
}
