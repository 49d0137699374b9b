//! What was odd about the environment.

use crate::PhysicalId;
use crate::shown::shortened;
use serde::Serialize;
use std::fmt;

/// The kinds of oddity. An entry of a list given in code that has one of them is refused with the
/// [`VisibilityError`](crate::VisibilityError) of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The variable is set to nothing, which hides every device.
    HiddenByEmpty,
    /// A number below zero: it and all that follows are ignored.
    Negative,
    /// Neither a number nor a UUID: it and all that follows are ignored.
    Unparsable,
    /// A word that container runtimes know (`all`, `none`, `void`), not the driver.
    ContainerKeyword,
    /// A number that no device has: it and all that follows are ignored.
    OutOfRange,
    /// A device named twice: the driver does not start.
    Duplicate,
    /// Characters behind a valid entry, which the driver ignores.
    TrailingGarbage,
    /// A number with a sign, which the driver accepts.
    SignedOrdinal,
    /// Nothing between two commas, or after the last: all that follows is ignored.
    EmptyEntry,
    /// A UUID that no device has: it and all that follows are ignored.
    UnknownUuid,
    /// The beginning of several devices' UUIDs: it and all that follows are ignored.
    AmbiguousUuid,
    /// A UUID in a list of numbers or a number in a list of UUIDs: it and all that follows are ignored.
    MixedKinds,
    /// A space that the driver does not skip: the entry and all that follows are ignored.
    Whitespace,
    /// More than one MIG device is listed; a process can use one.
    MultipleMig,
    /// A MIG device hides every other device.
    MigHidesOthers,
    /// The order variable has a value that the driver does not know: it does not start.
    UnknownOrder,
    /// A number so large that the driver reads its low 32 bits alone.
    WrappedOrdinal,
    /// The value is longer than the driver reads, and counts as unset.
    TooLong,
    /// The variable changed after it was read; the first value stays in force.
    AlreadyInitialized,
    /// There is no driver, so nothing can be visible.
    DriverMissing,
    /// Only the driver could be asked, which knows the devices that its mask leaves and no others.
    DriverViewOnly,
    /// The driver's own list differs from the one worked out here.
    DriverDisagrees,
}

impl fmt::Display for DiagnosticKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One thing that was odd, where it stands and what to do about it. Never an error by itself.
///
/// As JSON: `{"kind":"Negative","variable":"CUDA_VISIBLE_DEVICES","position":2,"entry":"-1","message":"..."}`.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{DiagnosticKind, Inventory, VisibleDevices};
///
/// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
/// let visible = VisibleDevices::resolve(Some("0,-1"), None, &Inventory::from_json(json)?);
/// let odd = &visible.diagnostics()[0];
/// assert_eq!((odd.kind, odd.position, odd.entry.as_str()), (DiagnosticKind::Negative, Some(1), "-1"));
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// What kind of oddity it is.
    pub kind: DiagnosticKind,
    /// The variable (or the list) in which it was found.
    pub variable: String,
    /// The entry's position, counted from 0; `None` when it is about the whole value.
    pub position: Option<usize>,
    /// The entry as it was written.
    pub entry: String,
    /// What the driver does with it, and the remedy.
    pub message: String,
    /// The cards that an ambiguous UUID could mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<PhysicalId>,
    /// Where a repeated device was named first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_position: Option<usize>,
}

impl Diagnostic {
    pub(crate) fn new(
        kind: DiagnosticKind,
        variable: &str,
        entry: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            variable: variable.to_owned(),
            position: None,
            entry: shortened(entry),
            message: message.into(),
            candidates: Vec::new(),
            first_position: None,
        }
    }

    pub(crate) fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.variable)?;
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {} ({})", self.message, self.kind)
    }
}
