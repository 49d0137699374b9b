//! What driver 580 answered on one H200 for over a thousand values, hand-written and random: `cuInit`'s code is ours
//! for every one of them. The UUIDs in the record are made up behind the first twelve digits.

use burn_visible_devices::{Inventory, VisibleDevices};

#[test]
fn every_recorded_answer_is_ours() {
    let record = include_str!("data/driver-580-one-card.jsonl");
    let mut differing = Vec::new();
    for line in record.lines() {
        let row: serde_json::Value =
            serde_json::from_str(line).expect("each line of the record is JSON");
        let json = format!(
            r#"{{"devices": [{{"physical": 0, "uuid": {}}}]}}"#,
            row["card"]
        );
        let inventory = Inventory::from_json(&json).expect("one card is an inventory");
        let visible =
            VisibleDevices::resolve(row["mask"].as_str(), row["order"].as_str(), &inventory);
        if visible.outcome().code().map(u64::from) != row["code"].as_u64() {
            differing.push(format!("{line}\n  ours: {:?}", visible.outcome()));
        }
    }
    println!("{} recorded answers compared", record.lines().count());
    assert!(
        differing.is_empty(),
        "{} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}
