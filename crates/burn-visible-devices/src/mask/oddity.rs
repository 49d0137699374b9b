//! What is wrong with an entry, in words.

use super::number::{Number, is_c_space};
use super::slot::Slot;
use super::uuid;
use crate::{DiagnosticKind, Inventory, PhysicalId};

/// An oddity without its place.
#[derive(Debug)]
pub(super) struct Oddity {
    pub(super) kind: DiagnosticKind,
    pub(super) message: String,
    pub(super) candidates: Vec<PhysicalId>,
}

impl Oddity {
    pub(super) fn new(kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            candidates: Vec::new(),
        }
    }
}

/// No device has this number.
pub(super) fn no_such_number(number: Number<'_>, slots: &[Slot], inventory: &Inventory) -> Oddity {
    if number.sign == Some('-') {
        return Oddity::new(
            DiagnosticKind::Negative,
            "a number below zero ends the list; remove it, or end the list before it",
        );
    }
    let there = match slots.len() {
        0 => "there is no device".to_owned(),
        1 => "there is one device, number 0".to_owned(),
        count => format!("there are {count} devices, numbers 0 to {}", count - 1),
    };
    let wrapped = if number.wrapped {
        " (the driver keeps 32 bits of the number)"
    } else {
        ""
    };
    let hint = u32::try_from(number.index)
        .ok()
        .and_then(|index| physical_hint(PhysicalId::from(index), slots, inventory));
    let remedy = hint.unwrap_or_else(|| {
        "choose one of these, and remember that a mask numbers devices from 0".to_owned()
    });
    Oddity::new(
        DiagnosticKind::OutOfRange,
        format!("no device has this number{wrapped}: {there}; {remedy}"),
    )
}

/// For a number that is no ordinal here but is a visible card's number in `nvidia-smi`.
pub(crate) fn physical_hint(
    physical: PhysicalId,
    slots: &[Slot],
    inventory: &Inventory,
) -> Option<String> {
    let ordinal = slots
        .iter()
        .position(|slot| slot.device(inventory).physical == physical)?;
    Some(format!(
        "logical {ordinal} is physical {physical}: write {ordinal}"
    ))
}

/// Behind `GPU-` or `MIG-` stands what is no hex digit, or nothing.
pub(super) fn no_uuid(at: Option<char>) -> Oddity {
    match at {
        Some(c) if is_c_space(c) => Oddity::new(
            DiagnosticKind::Whitespace,
            "a space inside a UUID ends the list; remove it",
        ),
        Some(c) => Oddity::new(
            DiagnosticKind::UnknownUuid,
            format!(
                "{c:?} is no hex digit, so no device has this UUID; copy one from `nvidia-smi -L`"
            ),
        ),
        None => Oddity::new(
            DiagnosticKind::UnknownUuid,
            "the digits of the UUID are missing; copy one from `nvidia-smi -L`",
        ),
    }
}

/// Neither a number nor a UUID.
pub(super) fn neither(entry: &str) -> Oddity {
    let trimmed = entry.trim_matches(is_c_space);
    if trimmed.is_empty() {
        return Oddity::new(
            DiagnosticKind::EmptyEntry,
            "an empty entry ends the list; remove the comma beside it",
        );
    }
    if uuid::is_uuid(trimmed) {
        return Oddity::new(
            DiagnosticKind::Whitespace,
            "the driver skips a space before a number but not before a UUID, and the list ends here; remove the space",
        );
    }
    if ["all", "none", "void"]
        .iter()
        .any(|word| trimmed.eq_ignore_ascii_case(word))
    {
        return Oddity::new(
            DiagnosticKind::ContainerKeyword,
            "NVIDIA_VISIBLE_DEVICES of containers knows this word, the driver does not, and the list ends here; \
             unset the variable to see all devices, set it to nothing to see none",
        );
    }
    let message = if trimmed.starts_with(['"', '\'']) {
        "the quotes are part of the value and end the list; set the variable without them"
    } else if trimmed.get(..4).is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("GPU-") || scheme.eq_ignore_ascii_case("MIG-")
    }) {
        "the driver knows GPU- and MIG- in capitals alone, and the list ends here; write it so"
    } else {
        "neither a number nor a UUID, and the list ends here; write a number from 0 or a UUID from `nvidia-smi -L`"
    };
    Oddity::new(DiagnosticKind::Unparsable, message)
}
