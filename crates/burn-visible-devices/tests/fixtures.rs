//! The inventories under `tests/data/inventories` are what `visibility-cases.tsv` says about them.

mod support;

use support::{data, inventory};

#[test]
fn equal_cards_are_numbered_and_equal() {
    for count in 1..=10 {
        let inventory = inventory(&format!("P{count}"));
        assert_eq!(inventory.devices().len(), count);
        for (device, id) in inventory.devices().iter().zip(0..) {
            assert_eq!(device.physical.get(), id);
            assert_eq!(device.name, inventory.devices()[0].name);
            assert_eq!(device.speed_rank, inventory.devices()[0].speed_rank);
            assert!(device.mig.is_empty());
        }
    }
}

#[test]
fn the_eight_have_the_uuids_of_the_table() {
    let table =
        std::fs::read_to_string(data().join("visibility-cases.tsv")).expect("the table is there");
    let line = table
        .lines()
        .find(|line| line.contains("U8 = 8 GPUs"))
        .expect("the table describes U8");
    let (_, listed) = line.split_once("UUIDs: ").expect("it lists the UUIDs");
    let listed: Vec<&str> = listed.trim_end_matches('.').split(", ").collect();
    let inventory = inventory("U8");
    let uuids: Vec<&str> = inventory
        .devices()
        .iter()
        .map(|device| device.uuid.as_str())
        .collect();
    assert_eq!(uuids, listed);
}

#[test]
fn the_unequal_ones_have_the_models_of_the_table() {
    for (fixture, models) in [
        ("HET2", "3090,4090"),
        ("HET7", "3090,3090,TITAN,GV100,A6000,TITAN,A6000"),
    ] {
        let inventory = inventory(fixture);
        let models: Vec<&str> = models.split(',').collect();
        assert_eq!(inventory.devices().len(), models.len());
        for (device, model) in inventory.devices().iter().zip(models) {
            assert!(
                device.name.contains(model),
                "{fixture}: {} is no {model}",
                device.name
            );
        }
    }
}

#[test]
fn the_split_ones_have_the_parts_of_the_table() {
    for (fixture, expected) in [
        (
            "M4",
            &[
                ("3456", &["3456"][..]),
                ("1234", &[]),
                ("7890", &["7890", "7891"]),
                ("1235", &[]),
            ][..],
        ),
        ("M2", &[("3456", &["3456"]), ("7890", &["7890", "7891"])]),
        ("MIG-two-children", &[("c0de", &["a000", "b000"])]),
        ("MIG-beside-whole", &[("1234", &[]), ("3456", &["3456"])]),
        ("MIG-before-whole", &[("3456", &["3456"]), ("1234", &[])]),
        ("MIG-alone", &[("3456", &["3456"])]),
    ] {
        let inventory = inventory(fixture);
        assert_eq!(inventory.devices().len(), expected.len(), "{fixture}");
        for (device, (card, parts)) in inventory.devices().iter().zip(expected) {
            assert!(
                device.uuid.starts_with(&format!("GPU-{card}")),
                "{fixture}: {}",
                device.uuid
            );
            let found: Vec<&str> = device.mig.iter().map(|part| &part.uuid[4..8]).collect();
            assert_eq!(&found, parts, "{fixture}");
        }
    }
}
