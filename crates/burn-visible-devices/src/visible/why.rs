//! The reason in one line.

use super::VisibleDevices;
use crate::{DriverOutcome, Environment};

/// The variables that are set, or that none is, and the cards that this leaves.
pub(super) fn why(environment: &Environment, visible: &VisibleDevices) -> String {
    let all = visible.inventory.devices().len();
    let set: Vec<String> = environment
        .masks()
        .iter()
        .filter_map(|mask| {
            mask.value
                .as_ref()
                .map(|value| format!("{}={value:?}", mask.name))
        })
        .collect();
    let cause = if set.is_empty() {
        let names: Vec<_> = environment
            .masks()
            .iter()
            .map(|mask| mask.name.as_str())
            .collect();
        format!(
            "{} {} unset",
            names.join(" and "),
            if names.len() == 1 { "is" } else { "are" }
        )
    } else {
        set.join(", ")
    };
    let order = environment.order().and_then(|order| {
        order
            .value
            .as_ref()
            .map(|value| format!(", {}={value:?}", order.name))
    });
    let count = visible.devices.len();
    let which = match visible.outcome() {
        DriverOutcome::DriverMissing { .. } => "none, there is no driver".to_owned(),
        _ if count == 0 => format!("none of {all}"),
        _ => {
            let physical: Vec<_> = visible
                .devices
                .iter()
                .map(|device| device.physical.to_string())
                .collect();
            let share = if count == all {
                format!("all {all}")
            } else {
                format!("{count} of {all}")
            };
            format!("{share} (physical {})", physical.join(", "))
        }
    };
    format!("{cause}{}: {which}", order.unwrap_or_default())
}
