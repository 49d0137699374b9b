//! Between the oddities of an entry and the errors of the same names.

use super::VisibilityError;
use crate::{Diagnostic, DiagnosticKind};

impl VisibilityError {
    /// The oddity for which an entry of a list was refused, where the error is about one.
    pub fn kind(&self) -> Option<DiagnosticKind> {
        match self {
            Self::EmptyList { .. } => Some(DiagnosticKind::HiddenByEmpty),
            Self::OutOfRange { .. } | Self::NoSuchOrdinal { .. } => {
                Some(DiagnosticKind::OutOfRange)
            }
            Self::Duplicate { .. } => Some(DiagnosticKind::Duplicate),
            Self::AmbiguousUuid { .. } => Some(DiagnosticKind::AmbiguousUuid),
            Self::Negative { .. } => Some(DiagnosticKind::Negative),
            Self::Unparsable { .. } => Some(DiagnosticKind::Unparsable),
            Self::UnknownUuid { .. } => Some(DiagnosticKind::UnknownUuid),
            Self::OddEntry { kind, .. } => Some(*kind),
            Self::DriverMissing { .. } => Some(DiagnosticKind::DriverMissing),
            _ => None,
        }
    }

    /// The strict reading of an oddity that the driver would have passed over.
    pub(crate) fn from_oddity(odd: Diagnostic, count: usize, visible: String) -> Self {
        let Diagnostic {
            kind,
            entry,
            message: problem,
            candidates,
            first_position,
            position,
            ..
        } = odd;
        let position = position.unwrap_or_default();
        match (kind, first_position) {
            (DiagnosticKind::OutOfRange, _) => Self::OutOfRange {
                entry,
                position,
                count,
                visible,
                problem,
            },
            (DiagnosticKind::Duplicate, Some(first_position)) => Self::Duplicate {
                entry,
                position,
                first_position,
                visible,
            },
            (DiagnosticKind::AmbiguousUuid, _) => Self::AmbiguousUuid {
                entry,
                position,
                candidates,
                visible,
                problem,
            },
            (DiagnosticKind::Negative, _) => Self::Negative {
                entry,
                position,
                visible,
                problem,
            },
            (DiagnosticKind::Unparsable, _) => Self::Unparsable {
                entry,
                position,
                visible,
                problem,
            },
            (DiagnosticKind::UnknownUuid, _) => Self::UnknownUuid {
                entry,
                position,
                visible,
                problem,
            },
            (kind, _) => Self::OddEntry {
                kind,
                entry,
                position,
                visible,
                problem,
            },
        }
    }
}
