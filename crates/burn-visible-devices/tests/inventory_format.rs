//! The JSON of an inventory: what is accepted, what is refused and with which words.

mod support;

use burn_visible_devices::{Inventory, VisibilityError};

fn refused(json: &str) -> VisibilityError {
    Inventory::from_json(json).expect_err("it should be refused")
}

#[test]
fn an_inventory_comes_back_as_it_was_written() {
    for fixture in ["P4", "M4", "HET7"] {
        let inventory = support::inventory(fixture);
        let json = serde_json::to_string(&inventory).expect("an inventory is JSON");
        assert_eq!(
            Inventory::from_json(&json).expect("its own JSON"),
            inventory
        );
    }
}

#[test]
fn devices_come_in_the_order_of_their_ids() {
    let json =
        r#"{"devices": [{"physical": 1, "uuid": "GPU-1"}, {"physical": 0, "uuid": "GPU-0"}]}"#;
    let inventory = Inventory::from_json(json).expect("two cards");
    assert_eq!(inventory.devices()[0].uuid, "GPU-0");
}

#[test]
fn repeats_are_refused() {
    for (field, json) in [
        (
            "physical id",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-1"}, {"physical": 0, "uuid": "GPU-2"}]}"#,
        ),
        (
            "UUID",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-A"}, {"physical": 1, "uuid": "GPU-a"}]}"#,
        ),
        (
            "PCI address",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-1", "pci_address": "0:A"},
                            {"physical": 1, "uuid": "GPU-2", "pci_address": "0:a"}]}"#,
        ),
    ] {
        let error = refused(json);
        assert!(
            matches!(&error, VisibilityError::InventoryInvalid { what, .. } if *what == field),
            "{error:?}"
        );
    }
}

#[test]
fn what_is_no_inventory_is_refused() {
    for json in [
        "",
        "[]",
        "{}",
        r#"{"devices": 3}"#,
        r#"{"devices": [{"physical": -1, "uuid": "GPU-1"}]}"#,
        r#"{"devices": [{"physical": 4294967296, "uuid": "GPU-1"}]}"#,
        r#"{"devices": [{"physical": 0}]}"#,
        r#"{"devices": [], "device": []}"#,
        r#"{"devices": [{"physical": 0, "uuid": "GPU-1", "memory": 3}]}"#,
    ] {
        assert!(
            matches!(refused(json), VisibilityError::InventoryJson { .. }),
            "{json}"
        );
    }
    for uuid in ["", "GPU-", "gpu-1", "1", "GPU-1,2", "GPU- 1", "MIG-1"] {
        let json = format!(r#"{{"devices": [{{"physical": 0, "uuid": "{uuid}"}}]}}"#);
        assert!(
            matches!(
                refused(&json),
                VisibilityError::InventoryInvalid { what: "UUID", .. }
            ),
            "{uuid}"
        );
    }
}

#[test]
fn too_much_is_refused() {
    let devices: Vec<_> = (0..=Inventory::MAX_DEVICES)
        .map(|id| format!(r#"{{"physical": {id}, "uuid": "GPU-{id}"}}"#))
        .collect();
    let error = refused(&format!(r#"{{"devices": [{}]}}"#, devices.join(",")));
    assert!(
        matches!(
            error,
            VisibilityError::InventoryTooLarge {
                what: "devices",
                ..
            }
        ),
        "{error:?}"
    );

    let long = refused(&format!(
        r#"{{"devices": [{{"physical": 0, "uuid": "GPU-{}"}}]}}"#,
        "a".repeat(1000)
    ));
    assert!(
        matches!(long, VisibilityError::InventoryTooLarge { .. }),
        "{long:?}"
    );

    let huge = refused(&" ".repeat(9 * 1024 * 1024));
    assert!(
        matches!(
            huge,
            VisibilityError::InventoryTooLarge { what: "bytes", .. }
        ),
        "{huge:?}"
    );

    let deep = refused(&"[".repeat(100_000));
    assert!(
        matches!(deep, VisibilityError::InventoryJson { .. }),
        "{deep:?}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Inventory::from_path("no/such/inventory.json").expect_err("there is none");
    assert!(
        error.to_string().contains("no/such/inventory.json"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused() {
    let error = Inventory::from_path("/dev/zero").expect_err("it has no end");
    assert!(
        matches!(
            error,
            VisibilityError::InventoryTooLarge { what: "bytes", .. }
        ),
        "{error:?}"
    );
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (field, json) in [
        (
            "missing",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-1"}], "missing": "no driver"}"#,
        ),
        (
            "refused",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-1"}], "source": "driver", "refused": true}"#,
        ),
        (
            "source",
            r#"{"devices": [{"physical": 0, "uuid": "GPU-1", "mig": [{"uuid": "MIG-1"}]}], "source": "driver"}"#,
        ),
    ] {
        let error = refused(json);
        assert!(
            matches!(&error, VisibilityError::InventoryInvalid { what, .. } if *what == field),
            "{error:?}"
        );
    }
}
