//! One MIG device a process: it hides all else.
//!
//! Source: the MIG user guide ("a CUDA process can enumerate a single MIG device") and what monitoring tools saw on
//! driver 550. Which device is kept when several are listed, the first, is theirs too.

use super::{Picked, Slot};
use crate::{Diagnostic, DiagnosticKind, Inventory};

/// Keeps the first MIG device if there is one, and says what that hides. `entries` are the entries of the mask that
/// was read last, or `None` when no mask is set.
pub(crate) fn keep_one_mig(
    picked: &mut Vec<Picked>,
    slots: &[Slot],
    inventory: &Inventory,
    variable: &str,
    entries: Option<&[&str]>,
) -> Vec<Diagnostic> {
    let Some(kept) = picked
        .iter()
        .find(|pick| slots[pick.slot].is_mig())
        .copied()
    else {
        return Vec::new();
    };
    let uuid = slots[kept.slot]
        .mig(inventory)
        .map(|part| part.uuid.as_str())
        .unwrap_or_default();
    let mut found = Vec::new();
    for kind in [DiagnosticKind::MultipleMig, DiagnosticKind::MigHidesOthers] {
        let hides_parts = kind == DiagnosticKind::MultipleMig;
        let hidden =
            |pick: &&Picked| pick.slot != kept.slot && slots[pick.slot].is_mig() == hides_parts;
        let Some(first) = picked.iter().find(hidden) else {
            continue;
        };
        let what = if hides_parts {
            "other MIG devices"
        } else {
            "whole cards"
        };
        let message = format!(
            "a process can use one MIG device: {uuid} is kept and {what} are hidden; name the one device that you want"
        );
        let entry = entries
            .and_then(|entries| entries.get(first.position))
            .copied()
            .unwrap_or_default();
        let mut diagnostic = Diagnostic::new(kind, variable, entry, message);
        diagnostic.position = entries.map(|_| first.position);
        found.push(diagnostic);
    }
    picked.retain(|pick| pick.slot == kept.slot);
    found
}
