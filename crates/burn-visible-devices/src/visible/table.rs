//! The mapping as a table.

use super::VisibleDevices;
use comfy_table::{Table, presets};
use std::fmt;

/// Every card of the machine and the ordinal of those that are visible, the primary marked.
impl fmt::Display for VisibleDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.inventory.devices().is_empty() {
            return write!(f, "no devices: {}", self.outcome);
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "physical",
            "name",
            "memory",
            "UUID",
            "PCI address",
            "ordinal",
        ]);
        for card in self.inventory.devices() {
            let address = card.pci_address.as_deref().unwrap_or("-");
            let visible: Vec<_> = self
                .devices
                .iter()
                .filter(|device| device.physical == card.physical)
                .collect();
            if visible.is_empty() {
                let memory = gibibytes(card.memory_total_bytes);
                table.add_row([
                    &card.physical.to_string(),
                    &card.name,
                    &memory,
                    &card.uuid,
                    address,
                    "-",
                ]);
            }
            for device in visible {
                let mark = if device.ordinal.get() == 0 {
                    " (primary)"
                } else {
                    ""
                };
                let ordinal = format!("{}{mark}", device.ordinal);
                let memory = gibibytes(device.memory_total_bytes);
                table.add_row([
                    &device.physical.to_string(),
                    &device.name,
                    &memory,
                    &device.uuid,
                    address,
                    &ordinal,
                ]);
            }
        }
        table.fmt(f)
    }
}

fn gibibytes(bytes: u64) -> String {
    const GIBIBYTE: f64 = 1024.0 * 1024.0 * 1024.0;
    if bytes == 0 {
        "?".to_owned()
    } else {
        format!("{:.1} GiB", bytes as f64 / GIBIBYTE)
    }
}
