//! The reason in one line.

use super::VisibleDevices;
use crate::environment::Variable;
use crate::shown::{enumerated, shortened};
use crate::{DriverOutcome, Environment, InventorySource};

/// The variables that are set, or that none is, and the cards that this leaves.
pub(super) fn why(environment: &Environment, visible: &VisibleDevices) -> String {
    format!("{}: {}", cause(environment), which(visible))
}

fn cause(environment: &Environment) -> String {
    let mut set: Vec<String> = environment.masks().iter().filter_map(assignment).collect();
    if set.is_empty() {
        let names = environment.masks().iter().map(|mask| mask.name.as_str());
        let names: Vec<_> = names.collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        set.push(format!("{} {verb} unset", names.join(" and ")));
    }
    set.extend(environment.order().and_then(assignment));
    set.join(", ")
}

fn assignment(variable: &Variable) -> Option<String> {
    let value = variable.value.as_deref()?;
    Some(format!("{}={:?}", variable.name, shortened(value)))
}

fn which(visible: &VisibleDevices) -> String {
    let all = visible.inventory.devices().len();
    let count = visible.devices.len();
    let parts = visible.devices.iter().any(|device| device.mig.is_some());
    let share = match visible.outcome() {
        DriverOutcome::DriverMissing { .. } => return "none, there is no driver".to_owned(),
        DriverOutcome::InvalidDevice => return "none, the driver refuses to start".to_owned(),
        _ if count == 0 => return format!("none of {all}"),
        _ if visible.inventory.source() == InventorySource::Driver => {
            format!("{count}, as the driver shows them")
        }
        _ if parts => format!("{count} MIG device of {all} cards"),
        _ if count == all => format!("all {all}"),
        _ => format!("{count} of {all}"),
    };
    let physical = visible.devices.iter().map(|device| device.physical);
    format!("{share} (physical {})", enumerated(physical))
}
