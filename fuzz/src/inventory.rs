//! Any text as an inventory: accepted and sound, or refused in a few words.

use crate::{list, printed};
use burn_visible_devices::{Inventory, VisibleDevices};
use std::collections::HashSet;

/// The text of a file.
pub fn inventory(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let inventory = match Inventory::from_json(text) {
        Ok(inventory) => inventory,
        Err(error) => return printed::check_message(&error.to_string()),
    };
    let devices = inventory.devices();
    assert!(devices.len() <= Inventory::MAX_DEVICES);
    assert!(
        devices.is_sorted_by(|a, b| a.physical < b.physical),
        "sorted, no id twice"
    );
    let parts = devices.iter().flat_map(|card| &card.mig);
    let uuids: Vec<_> = devices
        .iter()
        .map(|card| &card.uuid)
        .chain(parts.map(|part| &part.uuid))
        .collect();
    assert_eq!(
        uuids.iter().collect::<HashSet<_>>().len(),
        uuids.len(),
        "a UUID twice"
    );

    let again = serde_json::to_string(&inventory).expect("it has a form as JSON");
    assert_eq!(
        Inventory::from_json(&again).expect("what is written can be read"),
        inventory
    );

    let visible = VisibleDevices::resolve(None, None, &inventory);
    list::check(&visible, &inventory);
    list::check_diagnostics(&visible);
    // Whatever a device is called, its whole UUID names it.
    for device in visible.devices().iter().take(16) {
        let chosen = visible.select_str(&device.uuid);
        if device.uuid[4..]
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            && device.uuid.len() > 36
        {
            match chosen {
                Ok(chosen) => assert_eq!(chosen.devices()[0].uuid, device.uuid),
                Err(error) => printed::check_message(&error.to_string()),
            }
        }
    }
}
