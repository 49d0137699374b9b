//! What a mask would select.

use crate::arguments::Asked;
use crate::problem::Problem;
use crate::report::mapping;
use burn_visible_devices::{DeviceKind, Environment, Inventory, VisibleDevices};

/// The selection and what is odd about the mask, as text for people or as JSON.
pub fn mask(kind: DeviceKind, asked: &Asked, json: bool) -> Result<String, Problem> {
    if asked.order.is_some() && kind.order_variable().is_none() {
        return Err(Problem::OrderWithoutCuda);
    }
    let inventory = match &asked.inventory {
        Some(path) => Inventory::from_path(path)?,
        None => Inventory::detect(kind),
    };
    let visible = VisibleDevices::resolve_environment(&environment(kind, asked), &inventory);
    if json {
        return Ok(serde_json::to_string_pretty(&visible)?);
    }
    Ok(format!(
        "{}driver: {}",
        mapping(&visible),
        visible.outcome()
    ))
}

/// The environment that is asked about: the mask in the variable that is applied last.
fn environment(kind: DeviceKind, asked: &Asked) -> Environment {
    let masked = kind
        .mask_variables()
        .last()
        .and_then(|group| group.first())
        .copied();
    Environment::from_lookup(kind, |name| {
        if kind.order_variable() == Some(name) {
            asked.order.clone()
        } else {
            asked.mask.clone().filter(|_| Some(name) == masked)
        }
    })
}
