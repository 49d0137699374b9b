//! From the environment to the visible list.

use super::variables::{order_of, readable_mask};
use super::why::why;
use super::{VisibleDevice, VisibleDevices};
use crate::mask::{DeviceOrder, Picked, Slot, keep_one_mig, read_list, slots};
use crate::{Diagnostic, DiagnosticKind, DriverOutcome, Environment, Inventory, InventorySource};
use std::sync::Arc;

impl VisibleDevices {
    /// What `CUDA_VISIBLE_DEVICES` (`mask`) and `CUDA_DEVICE_ORDER` (`order`) select among the cards of the
    /// inventory; `None` is a variable that is not set.
    ///
    /// The list follows the driver, quirks included, and is never an error: see
    /// [the rules](crate#what-the-driver-does).
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{DiagnosticKind, Inventory, VisibleDevices};
    ///
    /// let inventory = Inventory::from_json(r#"{"devices": [
    ///     {"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000"},
    ///     {"physical": 1, "uuid": "GPU-10000000-0000-0000-0000-000000000000"}
    /// ]}"#)?;
    /// let visible = VisibleDevices::resolve(Some("1,5,0"), Some("PCI_BUS_ID"), &inventory);
    /// assert_eq!(visible.device_count(), 1); // 5 ends the list
    /// assert_eq!(visible.diagnostics()[0].kind, DiagnosticKind::OutOfRange);
    /// # Ok::<(), burn_visible_devices::VisibilityError>(())
    /// ```
    pub fn resolve(mask: Option<&str>, order: Option<&str>, inventory: &Inventory) -> Self {
        Self::resolve_environment(&Environment::cuda(mask, order), inventory)
    }

    /// What an environment selects among the cards of the inventory. ROCm's masks narrow each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{DeviceKind, Environment, Inventory, VisibleDevices};
    ///
    /// let lookup = |name: &str| match name {
    ///     "ROCR_VISIBLE_DEVICES" => Some("1".to_owned()),
    ///     "HIP_VISIBLE_DEVICES" => Some("1".to_owned()), // one device is left, number 0
    ///     _ => None,
    /// };
    /// let inventory = Inventory::from_json(r#"{"devices": [
    ///     {"physical": 0, "uuid": "GPU-0000000000000000"}, {"physical": 1, "uuid": "GPU-0000000000000001"}
    /// ]}"#)?;
    /// let environment = Environment::from_lookup(DeviceKind::Rocm, lookup);
    /// assert!(!VisibleDevices::resolve_environment(&environment, &inventory).is_available());
    /// # Ok::<(), burn_visible_devices::VisibilityError>(())
    /// ```
    pub fn resolve_environment(environment: &Environment, inventory: &Inventory) -> Self {
        let found = find(environment, inventory);
        let devices = (0..)
            .zip(found.slots)
            .map(|(number, slot)| VisibleDevice::new(number, slot, inventory));
        let mut visible = Self {
            kind: environment.kind(),
            devices: devices.collect(),
            diagnostics: found.diagnostics,
            outcome: found.outcome,
            why: String::new(),
            environment: environment.clone(),
            inventory: Arc::new(inventory.clone()),
        };
        visible.why = why(environment, &visible);
        visible
    }
}

/// The slots that are visible, in order, with what the driver answers.
struct Found {
    slots: Vec<Slot>,
    diagnostics: Vec<Diagnostic>,
    outcome: DriverOutcome,
}

impl Found {
    fn nothing(diagnostics: Vec<Diagnostic>, outcome: DriverOutcome) -> Self {
        Self {
            slots: Vec::new(),
            diagnostics,
            outcome,
        }
    }
}

fn find(environment: &Environment, inventory: &Inventory) -> Found {
    let named = environment
        .masks()
        .first()
        .map(|mask| mask.name.as_str())
        .unwrap_or_default();
    if let Some(reason) = inventory.missing() {
        let message =
            format!("no device can be listed: {reason}; install the driver, or give an inventory");
        let diagnostic = Diagnostic::new(DiagnosticKind::DriverMissing, named, "", message);
        return Found::nothing(
            vec![diagnostic],
            DriverOutcome::DriverMissing {
                reason: reason.to_owned(),
            },
        );
    }
    if inventory.source() == InventorySource::Driver {
        return as_the_driver_shows(named, inventory);
    }
    let mut diagnostics = Vec::new();
    let order = match order_of(environment, &mut diagnostics) {
        Some(order) => order,
        None => return Found::nothing(diagnostics, DriverOutcome::InvalidDevice),
    };
    let mut visible = slots(inventory, order);
    let mut picked = all(&visible);
    let mut last: Option<(&str, &str)> = None;
    for mask in environment.masks() {
        let Some(value) = readable_mask(mask, &mut diagnostics) else {
            continue;
        };
        if value.is_empty() {
            let message = "set to nothing, it hides every device; unset it to see all";
            diagnostics.push(Diagnostic::new(
                DiagnosticKind::HiddenByEmpty,
                &mask.name,
                "",
                message,
            ));
            return Found::nothing(diagnostics, DriverOutcome::NoDevice);
        }
        // A second mask counts within what the first one left.
        visible = picked
            .iter()
            .map(|pick: &Picked| visible[pick.slot])
            .collect();
        let selection = read_list(&mask.name, value, &visible, inventory);
        diagnostics.extend(selection.diagnostics);
        if selection.repeated {
            return Found::nothing(diagnostics, DriverOutcome::InvalidDevice);
        }
        picked = selection.picked;
        last = Some((&mask.name, value));
    }
    let entries: Option<Vec<&str>> = last.map(|(_, value)| value.split(',').collect());
    let name = last.map_or(named, |(name, _)| name);
    diagnostics.extend(keep_one_mig(
        &mut picked,
        &visible,
        inventory,
        name,
        entries.as_deref(),
    ));
    let slots: Vec<Slot> = picked.iter().map(|pick| visible[pick.slot]).collect();
    let outcome = outcome_of(&slots);
    Found {
        slots,
        diagnostics,
        outcome,
    }
}

fn all(slots: &[Slot]) -> Vec<Picked> {
    (0..slots.len())
        .map(|slot| Picked {
            slot,
            position: slot,
        })
        .collect()
}

/// The driver's list is masked and ordered already.
fn as_the_driver_shows(variable: &str, inventory: &Inventory) -> Found {
    let slots = slots(inventory, DeviceOrder::PciBusId);
    let message = if inventory.refused() {
        "NVML is missing, and the driver refuses to start: a device is named twice, or CUDA_DEVICE_ORDER is unknown; \
         correct the variable, and install libnvidia-ml to see which"
    } else {
        "NVML is missing, and the driver knows only the devices that its mask leaves: physical ids are the driver's \
         own numbers, and hidden devices are not listed; install libnvidia-ml"
    };
    let kind = DiagnosticKind::DriverViewOnly;
    let diagnostics = vec![Diagnostic::new(kind, variable, "", message)];
    let outcome = if inventory.refused() {
        DriverOutcome::InvalidDevice
    } else {
        outcome_of(&slots)
    };
    Found {
        slots,
        diagnostics,
        outcome,
    }
}

fn outcome_of(slots: &[Slot]) -> DriverOutcome {
    match slots.len() {
        0 => DriverOutcome::NoDevice,
        count => DriverOutcome::Ready { count },
    }
}
