//! Whatever a variable, a list or an inventory holds, a message is one short line that a terminal shows as it stands.

mod support;

use burn_visible_devices::{Inventory, VisibleDevices};
use proptest::prelude::*;
use support::inventory;

/// The longest message that is accepted here; the texts of this crate stay under 400 bytes.
const LONGEST: usize = 1500;

fn check(message: &str) {
    assert!(
        message.len() <= LONGEST,
        "{} bytes: {message:.200}",
        message.len()
    );
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

fn check_all(visible: &VisibleDevices) {
    check(visible.why());
    for odd in visible.diagnostics() {
        check(&odd.to_string());
    }
}

/// Texts with what terminals obey, and texts that are long.
fn odd_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => Just("\u{1b}[2J".to_owned()),
        3 => Just("\u{9b}31m".to_owned()),
        1 => Just("\r\n".to_owned()),
        3 => "[0-9],",
        1 => Just("GPU-9,".to_owned()),
        1 => any::<String>(),
        1 => Just("x".repeat(3000)),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_a_variable_or_a_list(text in odd_text(), fixture in prop::sample::select(vec!["P4", "U8", "M4"])) {
        let inventory = inventory(fixture);
        check_all(&VisibleDevices::resolve(Some(&text), Some(&text), &inventory));
        check_all(&VisibleDevices::resolve(Some(&text), None, &inventory));
        match VisibleDevices::resolve(None, None, &inventory).select_str(&text) {
            Ok(chosen) => check_all(&chosen),
            Err(error) => check(&error.to_string()),
        }
    }

    #[test]
    fn of_an_inventory(text in odd_text(), field in prop::sample::select(vec![
        "name", "uuid", "pci_address", "physical", "mig", "driver_version", "cuda_version", "missing", "source", "other",
    ])) {
        let mut device = serde_json::json!({"physical": 0, "uuid": "GPU-0"});
        let mut machine = serde_json::json!({"devices": []});
        match field {
            "name" | "uuid" | "pci_address" | "physical" | "mig" => device[field] = text.clone().into(),
            "other" => device[&text] = 1.into(),
            _ => machine[field] = text.clone().into(),
        }
        if field != "missing" {
            machine["devices"] = vec![device].into();
        }
        for json in [machine.to_string(), text] {
            match Inventory::from_json(&json) {
                Ok(inventory) => {
                    let visible = VisibleDevices::resolve(None, None, &inventory);
                    check_all(&visible);
                    let table = visible.to_string();
                    prop_assert!(!table.chars().any(|c| c.is_control() && c != '\n'), "{table:?}");
                }
                Err(error) => check(&error.to_string()),
            }
        }
    }
}

#[test]
fn an_ordinal_with_something_behind_it_cannot_hide_in_an_error() {
    let all = VisibleDevices::resolve(None, None, &inventory("P2"));
    for list in ["7\u{1b}[2J", "0,0\u{1b}[2J", "0\u{1b}[2J", "\u{1b}[2J"] {
        check(&all.select_str(list).expect_err("it is odd").to_string());
    }
}

#[test]
fn devices_that_a_uuid_could_mean_are_named_once() {
    let visible = VisibleDevices::resolve(Some("MIG-7"), None, &inventory("M4"));
    let odd = &visible.diagnostics()[0];
    assert_eq!(odd.candidates.len(), 1, "{odd}");
    assert!(odd.message.contains("2 devices of card 2"), "{odd}");
}
