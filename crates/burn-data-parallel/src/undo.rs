//! Undo: what a failed step has changed in the primary is put back.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;

use crate::error::DataParallelError;
use crate::reading::Reading;
use crate::snapshot::{Link, Scope, Snapshot, Take};
use crate::stats::Traffic;
use crate::workers::caught;

/// The primary's running statistics as they were before a step, where it has some.
pub(crate) struct Undo(Option<Snapshot>);

impl Undo {
    pub(crate) fn nothing() -> Self {
        Self(None)
    }

    /// Statistics that the last forward left pending are applied first, as the next forward would.
    pub(crate) fn of<M: Module>(module: &M, reading: &Arc<Reading>, primary: &Device) -> Self {
        drop(module.valid());
        let traffic = Traffic::default();
        let take = Take {
            reading,
            device: primary,
            link: Link::Leaf,
            scope: Scope::Buffers,
            traffic: &traffic,
        };
        Self(Some(take.values(module)))
    }

    /// `result`, after the running statistics of `module` have been put back if it is an error.
    pub(crate) fn unless_ok<T, M: Module>(
        self,
        result: Result<T, DataParallelError>,
        module: &M,
    ) -> Result<T, DataParallelError> {
        if result.is_err() {
            self.run(module);
        }
        result
    }

    /// Put the running statistics of `module` back.
    pub(crate) fn run<M: Module>(self, module: &M) {
        let Some(snapshot) = self.0 else { return };
        // What the failed step left pending is applied by `valid`, then overwritten by `map` through the cells that a clone
        // shares; the mapped clone itself is not needed.
        let undone = caught(|| {
            drop(module.valid());
            drop(snapshot.restore(module.clone()));
        });
        if let Err(cause) = undone {
            log::error!("running statistics could not be put back after a failed step: {cause}");
        }
    }
}
