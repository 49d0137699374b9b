//! Whatever is written into the variables, the list or the inventory: no panic, and the rules hold.

mod support;

use burn_visible_devices::{DiagnosticKind, DriverOutcome, Inventory, VisibleDevices};
use proptest::prelude::*;
use std::collections::HashSet;

const FIXTURES: &[&str] = &[
    "P1",
    "P4",
    "U8",
    "HET2",
    "HET7",
    "M2",
    "M4",
    "MIG-two-children",
];

/// Values made of what masks are made of, so that long valid beginnings are common.
fn mask() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        8 => (0..9u32).prop_map(|number| number.to_string()),
        8 => Just(",".to_owned()),
        4 => prop::sample::select(vec![
            " ", "\t", "-", "+", "-1", "GPU-", "MIG-", "MIG-GPU-", "GPU-9", "GPU-e", "GPU-47", "GPU-3456", "MIG-7890",
            "9e8d35e3", "/1/2", "4294967296", "18446744073709551616", "x", "\"", "all", "\u{ff10}", "\u{a0}", "",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

fn order() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        Just(Some("PCI_BUS_ID".to_owned())),
        Just(Some("FASTEST_FIRST".to_owned())),
        any::<String>().prop_map(Some),
    ]
}

fn fixture() -> impl Strategy<Value = Inventory> {
    prop::sample::select(FIXTURES).prop_map(support::inventory)
}

/// What ends a list.
fn ends_it(kind: DiagnosticKind) -> bool {
    use DiagnosticKind::{
        AmbiguousUuid, ContainerKeyword, EmptyEntry, MixedKinds, Negative, OutOfRange, UnknownUuid,
        Unparsable, Whitespace,
    };
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

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 10 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_list_is_a_part_of_the_inventory_without_repeats(mask in mask(), order in order(), inventory in fixture()) {
        let visible = VisibleDevices::resolve(Some(&mask), order.as_deref(), &inventory);
        let mut seen = HashSet::new();
        for (device, number) in visible.devices().iter().zip(0..) {
            prop_assert_eq!((device.ordinal.get(), device.driver_ordinal), (number, number));
            prop_assert!(inventory.devices().iter().any(|card| card.physical == device.physical));
            prop_assert!(seen.insert(device.uuid.clone()), "{} is there twice", device.uuid);
        }
        let shown = match visible.outcome() {
            DriverOutcome::Ready { count } => *count,
            _ => 0,
        };
        prop_assert_eq!(shown, visible.device_count());
        prop_assert!(visible.is_available() || !visible.diagnostics().is_empty(), "nothing is visible and nothing is said");
        let _ = (visible.to_string(), serde_json::to_string(&visible).is_ok());
    }

    #[test]
    fn the_list_is_that_of_its_valid_beginning(mask in mask(), inventory in fixture()) {
        let visible = VisibleDevices::resolve(Some(&mask), None, &inventory);
        let end = visible.diagnostics().iter().find(|odd| ends_it(odd.kind)).and_then(|odd| odd.position);
        if let Some(end) = end.filter(|end| *end > 0) {
            let beginning: Vec<&str> = mask.split(',').take(end).collect();
            let alone = VisibleDevices::resolve(Some(&beginning.join(",")), None, &inventory);
            prop_assert_eq!(visible.devices(), alone.devices());
            prop_assert_eq!(visible.outcome(), alone.outcome());
        }
    }

    #[test]
    fn a_list_in_code_is_either_exact_or_refused(mask in mask(), inventory in fixture()) {
        let all = VisibleDevices::resolve(None, None, &inventory);
        if let Ok(chosen) = all.select_str(&mask) {
            prop_assert_eq!(chosen.device_count(), mask.split(',').count());
            let lenient = VisibleDevices::resolve(Some(&mask), None, &inventory);
            // MIG devices stand alone in the visible list but not before the mask.
            if inventory.devices().iter().all(|card| card.mig.is_empty()) {
                let cards = |visible: &VisibleDevices| -> Vec<_> { visible.devices().iter().map(|device| device.physical).collect() };
                prop_assert_eq!(cards(&lenient), cards(&chosen));
                prop_assert!(lenient.diagnostics().is_empty());
            }
        }
    }

    #[test]
    fn any_text_at_all_is_answered(mask in any::<String>(), order in any::<Option<String>>(), inventory in fixture()) {
        let visible = VisibleDevices::resolve(Some(&mask), order.as_deref(), &inventory);
        let _ = visible.select_str(&mask);
        prop_assert!(!visible.why().is_empty());
    }

    #[test]
    fn any_json_is_an_inventory_or_an_error(text in any::<String>(), number in any::<i128>(), uuid in "(GPU-|MIG-|)[0-9a-zé/-]{0,6}") {
        let _ = Inventory::from_json(&text);
        for json in [
            format!(r#"{{"devices": [{{"physical": {number}, "uuid": "{uuid}"}}]}}"#),
            format!(r#"{{"devices": [{{"physical": 0, "uuid": "{uuid}", "mig": [{{"uuid": "{uuid}"}}]}}]}}"#),
            format!(r#"{{"devices": [{{"physical": 0, "uuid": "{uuid}", "memory_total_bytes": {number}}}]}}"#),
        ] {
            if let Ok(inventory) = Inventory::from_json(&json) {
                let visible = VisibleDevices::resolve(Some(&uuid), None, &inventory);
                prop_assert!(visible.device_count() <= 1);
            }
        }
    }
}
