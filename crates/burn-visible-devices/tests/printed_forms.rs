//! What people and programs read: the table, the reason and the JSON.

mod support;

use burn_visible_devices::{DiagnosticKind, Inventory, VisibleDevices};
use support::inventory;

fn visible(mask: Option<&str>) -> VisibleDevices {
    VisibleDevices::resolve(mask, Some("PCI_BUS_ID"), &inventory("P4"))
}

#[test]
fn the_table_lists_every_card_and_marks_the_primary() {
    let table = visible(Some("2,0")).to_string();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("GPU-")).collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(
        rows[2].contains("0 (primary)") && rows[2].contains("00000000:20:00.0"),
        "{table}"
    );
    assert!(rows[1].contains("140.4 GiB"), "{table}");
    assert_eq!(table.matches("(primary)").count(), 1, "{table}");
}

#[test]
fn a_machine_without_cards_prints_the_reason() {
    let visible = VisibleDevices::resolve(None, None, &Inventory::empty("libcuda is not there"));
    assert_eq!(
        visible.to_string(),
        "no devices: no driver: libcuda is not there"
    );
    assert_eq!(
        visible.why(),
        "CUDA_VISIBLE_DEVICES is unset: none, there is no driver"
    );
    assert!(
        visible.diagnostics()[0]
            .message
            .contains("libcuda is not there")
    );
}

#[test]
fn the_reason_names_variables_cards_and_code() {
    let inventory = inventory("P4");
    let why = |mask: Option<&str>| {
        VisibleDevices::resolve(mask, None, &inventory)
            .why()
            .to_owned()
    };
    assert_eq!(
        why(None),
        "CUDA_VISIBLE_DEVICES is unset: all 4 (physical 0, 1, 2, 3)"
    );
    assert_eq!(
        why(Some("2,3")),
        "CUDA_VISIBLE_DEVICES=\"2,3\": 2 of 4 (physical 2, 3)"
    );
    assert_eq!(why(Some("")), "CUDA_VISIBLE_DEVICES=\"\": none of 4");
    let ordered = visible(Some("2,3")).select([1]).expect("it is visible");
    assert_eq!(
        ordered.why(),
        "CUDA_VISIBLE_DEVICES=\"2,3\", CUDA_DEVICE_ORDER=\"PCI_BUS_ID\": 2 of 4 (physical 2, 3); selected in code: 1"
    );
}

#[test]
fn json_has_the_documented_fields() {
    let json = serde_json::to_value(visible(Some("0,2,-1,1"))).expect("it is JSON");
    assert_eq!(json["kind"], "cuda");
    assert_eq!(json["visible"][1]["ordinal"], 1);
    assert_eq!(json["visible"][1]["physical"], 2);
    assert_eq!(json["visible"][1]["name"], "NVIDIA H200");
    assert!(json["visible"][1].get("mig").is_none());
    assert_eq!(
        json["outcome"],
        serde_json::json!({"answer": "Ready", "count": 2})
    );
    let odd = &json["diagnostics"][0];
    assert_eq!(
        (&odd["kind"], &odd["position"], &odd["entry"]),
        (&"Negative".into(), &2.into(), &"-1".into())
    );
    assert!(
        odd["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty())
    );
}

#[test]
fn a_long_entry_is_shortened_in_messages() {
    let visible = visible(Some(&format!("0,{}", "x".repeat(2000))));
    assert!(visible.diagnostics()[0].to_string().len() < 400);
    assert_eq!(visible.diagnostics()[0].entry.len(), 83);
}

#[test]
fn a_list_that_only_the_driver_gave_says_so_and_is_not_masked_again() {
    let json = r#"{"source": "driver", "devices": [{"physical": 0, "uuid": "GPU-1"}, {"physical": 1, "uuid": "GPU-0"}]}"#;
    let inventory = Inventory::from_json(json).expect("two cards");
    let visible = VisibleDevices::resolve(Some("3,2"), None, &inventory);
    assert_eq!(
        visible.why(),
        "CUDA_VISIBLE_DEVICES=\"3,2\": 2, as the driver shows them (physical 0, 1)"
    );
    assert_eq!(visible.device_count(), 2);
    assert_eq!(
        visible.diagnostics()[0].kind,
        DiagnosticKind::DriverViewOnly
    );
}

#[test]
fn a_driver_that_refuses_to_start_is_not_called_missing() {
    let json = r#"{"source": "driver", "refused": true, "devices": []}"#;
    let inventory = Inventory::from_json(json).expect("no card");
    let visible = VisibleDevices::resolve(Some("0,0"), None, &inventory);
    assert_eq!(visible.outcome().code(), Some(101));
    assert!(
        visible.diagnostics()[0]
            .message
            .contains("refuses to start")
    );
    assert_eq!(
        visible.why(),
        "CUDA_VISIBLE_DEVICES=\"0,0\": none, the driver refuses to start"
    );
}
