//! Comparing the list worked out here with the driver's own.

use super::VisibleDevices;
use crate::inventory::driver;
use crate::{Diagnostic, DiagnosticKind, VisibilityError};

impl VisibleDevices {
    /// Asks the CUDA driver whether it shows the same devices in the same order, compared by UUID.
    ///
    /// It starts the driver (`cuInit`), which then keeps the environment that it read, and creates no context. An
    /// empty answer means that they agree; otherwise the
    /// [`DriverDisagrees`](DiagnosticKind::DriverDisagrees) diagnostic holds both lists. Devices selected in code
    /// are compared by their `driver_ordinal`.
    ///
    /// The order `FASTEST_FIRST` over unequal cards follows a heuristic that is not documented: this is how to be
    /// sure of it.
    ///
    /// # Errors
    ///
    /// [`DriverMissing`](VisibilityError::DriverMissing) when there is no driver to ask.
    pub fn check_against_driver(&self) -> Result<Vec<Diagnostic>, VisibilityError> {
        let answer = driver::ask().map_err(|reason| VisibilityError::DriverMissing { reason })?;
        let agrees = |number: u32, uuid: &str| {
            let theirs = answer
                .devices
                .get(number as usize)
                .map(|(uuid, _)| uuid.as_str());
            // The driver's UUID of a MIG device has the same digits behind its own scheme.
            theirs.and_then(|theirs| theirs.get(4..)) == uuid.get(4..)
        };
        let same = self
            .devices
            .iter()
            .all(|device| agrees(device.driver_ordinal, &device.uuid));
        if same && self.outcome.code() == answer.outcome.code() {
            return Ok(Vec::new());
        }
        let theirs: Vec<_> = answer
            .devices
            .iter()
            .map(|(uuid, _)| uuid.as_str())
            .collect();
        let ours: Vec<_> = self
            .devices
            .iter()
            .map(|device| device.uuid.as_str())
            .collect();
        let message = format!(
            "expected {} ({}), but {} ({}); set CUDA_DEVICE_ORDER=PCI_BUS_ID, which is never a guess",
            self.outcome,
            ours.join(", "),
            answer.outcome,
            theirs.join(", ")
        );
        Ok(vec![Diagnostic::new(
            DiagnosticKind::DriverDisagrees,
            "the CUDA driver",
            "",
            message,
        )])
    }
}
