//! The values as the driver reads them.

use crate::environment::Variable;
use crate::mask::DeviceOrder;
use crate::{Diagnostic, DiagnosticKind, Environment};

/// The longest mask that the driver (580) reads, as many bytes as 64 whole UUIDs with their commas; a longer one
/// counts as unset.
const LONGEST_MASK: usize = 2624;
/// The longest order that the driver (580) reads; a longer one counts as unset.
const LONGEST_ORDER: usize = 1023;

/// The order that the driver follows, or `None` when it refuses to start.
pub(super) fn order_of(
    environment: &Environment,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<DeviceOrder> {
    let default = DeviceOrder::default_of(environment.kind());
    let Some(variable) = environment.order() else {
        return Some(default);
    };
    let Some(value) = readable(variable, LONGEST_ORDER, diagnostics) else {
        return Some(default);
    };
    let order = DeviceOrder::parse(value);
    if order.is_none() {
        let message = "the driver knows FASTEST_FIRST and PCI_BUS_ID alone, in capitals and without space, and does \
                       not start; write one of them, or unset the variable";
        diagnostics.push(Diagnostic::new(
            DiagnosticKind::UnknownOrder,
            &variable.name,
            value,
            message,
        ));
    }
    order
}

/// A mask as the driver reads it.
pub(super) fn readable_mask<'a>(
    variable: &'a Variable,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<&'a str> {
    readable(variable, LONGEST_MASK, diagnostics)
}

/// The value as the driver reads it: one that is too long counts as unset.
fn readable<'a>(
    variable: &'a Variable,
    longest: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<&'a str> {
    let value = variable.value.as_deref()?;
    if value.len() <= longest {
        return Some(value);
    }
    let message = format!(
        "{} bytes are more than the {longest} that the driver reads, and it takes the variable for unset; \
         shorten it, for instance by numbers or short UUIDs",
        value.len()
    );
    diagnostics.push(Diagnostic::new(
        DiagnosticKind::TooLong,
        &variable.name,
        value,
        message,
    ));
    None
}
