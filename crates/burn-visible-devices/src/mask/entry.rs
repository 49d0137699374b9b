//! One entry of a list: which device it selects, and what is odd about it.

use super::number::{self, Number};
use super::oddity::{Oddity, neither, no_such_number, no_uuid};
use super::slot::Slot;
use super::uuid::{self, UuidEntry};
use crate::shown::enumerated;
use crate::{DiagnosticKind, Inventory, PhysicalId};
use std::collections::{BTreeSet, HashSet};

/// The place in `slots` that an entry selects, and what is odd about an entry that is accepted.
pub(super) type Accepted = (usize, Option<Oddity>);

/// What the list holds: the first entry decides it, and the driver stops at the first entry of the other kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Numbers,
    Uuids,
}

impl ListKind {
    pub(super) fn of(first_entry: &str) -> Self {
        if uuid::is_uuid(first_entry) {
            Self::Uuids
        } else {
            Self::Numbers
        }
    }
}

/// Reads one entry.
///
/// # Errors
///
/// The oddity that makes the driver stop here.
pub(super) fn read(
    entry: &str,
    list: ListKind,
    slots: &[Slot],
    inventory: &Inventory,
) -> Result<Accepted, Oddity> {
    match (list, uuid::is_uuid(entry), number::parse(entry)) {
        (ListKind::Uuids, true, _) => read_uuid(entry, slots, inventory),
        (ListKind::Numbers, false, Some(number)) => read_number(number, slots, inventory),
        (ListKind::Numbers, true, _) => Err(Oddity::new(
            DiagnosticKind::MixedKinds,
            "a UUID in a list that began with a number ends the list; write all entries as numbers or all as UUIDs",
        )),
        (ListKind::Uuids, false, Some(_)) => Err(Oddity::new(
            DiagnosticKind::MixedKinds,
            "a number in a list that began with a UUID ends the list; write all entries as numbers or all as UUIDs",
        )),
        (_, false, None) => Err(neither(entry)),
    }
}

fn read_number(
    number: Number<'_>,
    slots: &[Slot],
    inventory: &Inventory,
) -> Result<Accepted, Oddity> {
    let index = usize::try_from(number.index)
        .ok()
        .filter(|index| *index < slots.len());
    let Some(index) = index else {
        return Err(no_such_number(number, slots, inventory));
    };
    let oddity = if number.wrapped {
        let message = format!(
            "the driver keeps 32 bits of this number and takes it for {index}; write {index}"
        );
        Some(Oddity::new(DiagnosticKind::WrappedOrdinal, message))
    } else if !number.rest.is_empty() {
        let message = format!("the driver reads {index} and ignores what follows; write {index}");
        Some(Oddity::new(DiagnosticKind::TrailingGarbage, message))
    } else if number.sign.is_some() {
        Some(Oddity::new(
            DiagnosticKind::SignedOrdinal,
            format!("the driver reads {index}; write it without the sign"),
        ))
    } else {
        None
    };
    Ok((index, oddity))
}

fn read_uuid(entry: &str, slots: &[Slot], inventory: &Inventory) -> Result<Accepted, Oddity> {
    let (matching, rest) = match uuid::parse(entry) {
        UuidEntry::Prefix { mig, digits, rest } => {
            (by_digits(mig, &digits, slots, inventory), rest)
        }
        UuidEntry::Instance {
            digits,
            gpu_instance,
            compute_instance,
        } => (
            by_instance(&digits, gpu_instance, compute_instance, slots, inventory),
            "",
        ),
        UuidEntry::Invalid { at } => return Err(no_uuid(at)),
    };
    match matching[..] {
        [] => Err(Oddity::new(
            DiagnosticKind::UnknownUuid,
            "no device has a UUID that begins so; `nvidia-smi -L` prints the UUIDs of this machine",
        )),
        [index] if rest.is_empty() => Ok((index, None)),
        [index] => Ok((
            index,
            Some(Oddity::new(
                DiagnosticKind::TrailingGarbage,
                "the driver ignores what follows the whole UUID; remove it",
            )),
        )),
        _ => Err(ambiguous(&matching, slots, inventory)),
    }
}

/// Several devices have UUIDs that begin so; MIG devices of one card among them name it once.
fn ambiguous(matching: &[usize], slots: &[Slot], inventory: &Inventory) -> Oddity {
    let cards = matching
        .iter()
        .map(|index| slots[*index].device(inventory).physical);
    let candidates: Vec<PhysicalId> = cards.collect::<BTreeSet<_>>().into_iter().collect();
    let named = match &candidates[..] {
        [card] => format!("{} devices of card {card}", matching.len()),
        cards => format!(
            "{} devices, of cards {},",
            matching.len(),
            enumerated(cards.iter())
        ),
    };
    Oddity {
        kind: DiagnosticKind::AmbiguousUuid,
        message: format!("{named} have UUIDs that begin so; write more digits"),
        candidates,
    }
}

/// `MIG-` looks among the MIG devices first, then, as the driver does, among whole cards. `GPU-` of a card in MIG
/// mode stands for its first MIG device.
fn by_digits(mig: bool, digits: &str, slots: &[Slot], inventory: &Inventory) -> Vec<usize> {
    let all = 0..slots.len();
    if mig {
        let part = |index: &usize| {
            slots[*index]
                .mig(inventory)
                .is_some_and(|part| uuid::begins_with(&part.uuid, digits))
        };
        let parts: Vec<usize> = all.clone().filter(part).collect();
        if !parts.is_empty() {
            return parts;
        }
    }
    let mut cards = HashSet::new();
    all.filter(|index| {
        let slot = slots[*index];
        let first_of_card = cards.insert(slot.device(inventory).physical);
        first_of_card
            && !(mig && slot.is_mig())
            && uuid::begins_with(&slot.device(inventory).uuid, digits)
    })
    .collect()
}

fn by_instance(
    digits: &str,
    gpu: u32,
    compute: u32,
    slots: &[Slot],
    inventory: &Inventory,
) -> Vec<usize> {
    let is_it = |slot: &Slot| {
        slot.mig(inventory).is_some_and(|part| {
            (part.gpu_instance, part.compute_instance) == (Some(gpu), Some(compute))
                && uuid::begins_with(&slot.device(inventory).uuid, digits)
        })
    };
    (0..slots.len())
        .filter(|index| is_it(&slots[*index]))
        .collect()
}
