//! The place of one replica in a step, as the work on it sees it.

use std::sync::Arc;

use burn::tensor::Device;

use crate::error::{DataParallelError, Phase};
use crate::inspect::describe;
use crate::layout::Layout;
use crate::progress::Progress;
use crate::turn::Turn;

pub(crate) struct Slot {
    pub(crate) replica: usize,
    /// Rows of its shard over rows of the batch.
    pub(crate) share: f64,
    /// Rows of the batch; 1 where it has none.
    pub(crate) total_rows: f64,
    /// How gradients are packed, where they have to move.
    pub(crate) layout: Option<Arc<Layout>>,
    pub(crate) device: Device,
    pub(crate) local: bool,
    pub(crate) turn: Option<Arc<Turn>>,
    pub(crate) progress: Arc<Progress>,
}

impl Slot {
    /// Run the user's closure, in turn where random numbers are drawn.
    pub(crate) fn in_turn<T>(&self, run: impl FnOnce() -> T) -> T {
        let run = || {
            self.progress.enter(self.replica, Phase::Apply);
            run()
        };
        let Some(turn) = &self.turn else { return run() };
        let _turn = turn.wait(self.replica);
        let result = run();
        // Backends that queue operations draw when they get to it. Here that is when the queue is flushed; on a server, whose
        // devices share a generator too, when the operation has run.
        let drawn = if self.local {
            self.device.flush()
        } else {
            self.device.sync()
        };
        // A device that fails here fails again where its results are used, and there it is reported.
        drop(drawn);
        result
    }

    pub(crate) fn device_name(&self) -> String {
        describe(&self.device)
    }

    /// The error for a closure that returned one.
    pub(crate) fn failed(
        &self,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> DataParallelError {
        DataParallelError::Replica {
            replica: self.replica,
            device: self.device_name(),
            phase: Phase::Apply,
            cause: source.to_string(),
            source: Some(source),
        }
    }
}

impl Drop for Slot {
    /// A replica that failed before its turn must not keep the others waiting for it.
    fn drop(&mut self) {
        if let Some(turn) = &self.turn {
            turn.leave(self.replica);
        }
    }
}
