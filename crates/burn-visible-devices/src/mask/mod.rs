//! A whole list, read as the driver reads it.

mod entry;
mod mig;
mod number;
mod oddity;
mod slot;
mod uuid;

pub(crate) use mig::keep_one_mig;
pub(crate) use oddity::physical_hint;
pub(crate) use slot::{DeviceOrder, Slot, slots};

use crate::{Diagnostic, DiagnosticKind, Inventory};
use entry::ListKind;

/// A device that the list selects, and the entry that does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picked {
    /// Place in the list of devices from which the mask selects.
    pub(crate) slot: usize,
    /// Position of the entry.
    pub(crate) position: usize,
}

/// What a list selects.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The devices of the valid beginning, in order; empty when one of them is repeated.
    pub(crate) picked: Vec<Picked>,
    /// Whether a device is repeated, which the driver refuses.
    pub(crate) repeated: bool,
    /// What was odd, in order of position.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Reads a list: the first invalid entry ends it, and only then are repeats looked for among what is left.
pub(crate) fn read_list(
    variable: &str,
    list: &str,
    slots: &[Slot],
    inventory: &Inventory,
) -> Selection {
    let mut picked: Vec<Picked> = Vec::new();
    let mut diagnostics = Vec::new();
    let kind = ListKind::of(list);
    for (position, text) in list.split(',').enumerate() {
        let read = entry::read(text, kind, slots, inventory);
        let stop = read.is_err();
        let oddity = match read {
            Ok((slot, oddity)) => {
                picked.push(Picked { slot, position });
                oddity
            }
            Err(oddity) => Some(oddity),
        };
        diagnostics.extend(oddity.map(|oddity| {
            let mut found =
                Diagnostic::new(oddity.kind, variable, text, oddity.message).at(position);
            found.candidates = oddity.candidates;
            found
        }));
        if stop {
            break;
        }
    }
    let repeats = repeats(variable, list, &picked, slots, inventory);
    let repeated = !repeats.is_empty();
    diagnostics.extend(repeats);
    diagnostics.sort_by_key(|found| found.position);
    if repeated {
        picked.clear();
    }
    Selection {
        picked,
        repeated,
        diagnostics,
    }
}

/// One diagnostic for the first repeat of each device.
fn repeats(
    variable: &str,
    list: &str,
    picked: &[Picked],
    slots: &[Slot],
    inventory: &Inventory,
) -> Vec<Diagnostic> {
    let mut first = vec![None; slots.len()];
    let mut reported = vec![false; slots.len()];
    let entries: Vec<&str> = list.split(',').collect();
    let mut found = Vec::new();
    for pick in picked {
        let Some(earlier) = first[pick.slot] else {
            first[pick.slot] = Some(pick.position);
            continue;
        };
        if std::mem::replace(&mut reported[pick.slot], true) {
            continue;
        }
        let physical = slots[pick.slot].device(inventory).physical;
        let message = format!(
            "card {physical} is named at position {earlier} and again at {}, and the driver does not start; name it once",
            pick.position
        );
        let mut repeat = Diagnostic::new(
            DiagnosticKind::Duplicate,
            variable,
            entries[pick.position],
            message,
        )
        .at(pick.position);
        repeat.first_position = Some(earlier);
        found.push(repeat);
    }
    found
}
