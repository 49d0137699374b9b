//! The time limit: steps run on a thread of their own, and the caller waits no longer than it was told to.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::error::DataParallelError;
use crate::progress::Progress;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::mpsc::{RecvTimeoutError, channel};
use crate::sync::{Arc, Mutex, PoisonError};
use crate::workers::Worker;

/// A coordinator thread with a queue: one step at a time, whoever asks for it.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) limit: Duration,
    worker: Arc<Worker>,
    /// Of the step that runs now, or has run last.
    progress: Arc<Mutex<Option<Arc<Progress>>>>,
}

/// The step's side: whether the caller still waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticket {
    state: Arc<AtomicU8>,
    board: Option<Arc<Mutex<Option<Arc<Progress>>>>>,
}

const RUNNING: u8 = 0;
const ENDED: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Ticket {
    /// Show where the replicas are to those who wait.
    pub(crate) fn show(&self, progress: &Arc<Progress>) {
        if let Some(board) = &self.board {
            *board.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
        }
    }

    /// The step has ended; false if it was given up before, and has to be undone.
    pub(crate) fn end(&self) -> bool {
        self.settle(ENDED)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.state.load(Ordering::SeqCst) == GIVEN_UP
    }

    fn settle(&self, state: u8) -> bool {
        let settled =
            self.state
                .compare_exchange(RUNNING, state, Ordering::SeqCst, Ordering::SeqCst);
        settled.is_ok()
    }
}

/// Why there is no result.
pub(crate) enum Missing {
    /// The limit has passed; where the replicas were.
    TimedOut(Option<Arc<Progress>>),
    /// The thread has ended, which only a fault of the operating system can do.
    NoThread,
}

impl Watch {
    pub(crate) fn start(limit: Duration) -> Result<Self, DataParallelError> {
        let worker = Worker::start("data parallel coordinator".into())
            .map_err(|cause| DataParallelError::Thread { replica: 0, cause })?;
        Ok(Self {
            limit,
            worker: Arc::new(worker),
            progress: Arc::default(),
        })
    }

    /// Run `step` on the coordinator thread, and wait for it until the limit. A step that had not begun by then never runs.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        step: impl FnOnce(&Ticket) -> R + Send + 'static,
    ) -> Result<R, Missing> {
        let ticket = Ticket {
            state: Arc::default(),
            board: Some(self.progress.clone()),
        };
        let (done, result) = channel();
        // Until the job has ended it keeps its own thread, so that nobody who drops the watch has to wait for it.
        let (own, board, thread) = (ticket.clone(), self.progress.clone(), self.worker.clone());
        self.worker.send(Box::new(move || {
            let _thread = thread;
            if !own.is_given_up() {
                // Nothing of the step before.
                *board.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let outcome = catch_unwind(AssertUnwindSafe(|| step(&own)));
                // Nobody waits any more if the step was given up.
                let _ = done.send(outcome);
            }
        }));
        let outcome = match result.recv_timeout(self.limit) {
            Err(RecvTimeoutError::Timeout) if ticket.settle(GIVEN_UP) => {
                let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
                return Err(Missing::TimedOut(progress.clone()));
            }
            // It has ended in this very moment: the result is on its way.
            Err(RecvTimeoutError::Timeout) => result.recv().map_err(|_| Missing::NoThread)?,
            Err(RecvTimeoutError::Disconnected) => return Err(Missing::NoThread),
            Ok(outcome) => outcome,
        };
        Ok(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}
