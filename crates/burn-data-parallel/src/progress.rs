//! Where each replica is in a step: for errors that name the phase, and for the time limit's report.

use crate::error::Phase;
use crate::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// One step's board: the phase that each replica has entered last.
#[derive(Debug)]
pub(crate) struct Progress {
    phases: Vec<AtomicU8>,
    /// The replica that the coordinator serves: the one to name if its work fails.
    served: AtomicUsize,
    #[cfg(feature = "fault-injection")]
    faults: Option<crate::faults::Faults>,
}

const ENDED: u8 = 0;

const PHASES: [Phase; 7] = [
    Phase::Broadcast,
    Phase::Scatter,
    Phase::Apply,
    Phase::Backward,
    Phase::Reduce,
    Phase::Gather,
    Phase::Optimizer,
];

/// 1 for the first of `PHASES`, and so on.
fn code(phase: Phase) -> u8 {
    PHASES
        .iter()
        .zip(ENDED + 1..)
        .find_map(|(&other, code)| (other == phase).then_some(code))
        .unwrap_or(ENDED)
}

impl Progress {
    pub(crate) fn new(replicas: usize) -> Self {
        Self {
            phases: (0..replicas).map(|_| AtomicU8::new(ENDED)).collect(),
            served: AtomicUsize::new(0),
            #[cfg(feature = "fault-injection")]
            faults: None,
        }
    }

    #[cfg(feature = "fault-injection")]
    pub(crate) fn with_faults(mut self, faults: Option<crate::faults::Faults>) -> Self {
        self.faults = faults;
        self
    }

    /// `replica` enters `phase`, on the thread that does its work.
    pub(crate) fn enter(&self, replica: usize, phase: Phase) {
        if let Some(board) = self.phases.get(replica) {
            board.store(code(phase), Ordering::Relaxed);
        }
        #[cfg(feature = "fault-injection")]
        if let Some(faults) = &self.faults {
            faults.enter(replica, phase);
        }
    }

    /// The coordinator works for `replica` now, in the phase that it is in.
    pub(crate) fn turn_to(&self, replica: usize) {
        self.served.store(replica, Ordering::Relaxed);
    }

    /// The coordinator begins to work on `phase` for `replica`.
    pub(crate) fn serve(&self, replica: usize, phase: Phase) {
        self.turn_to(replica);
        self.enter(replica, phase);
    }

    /// The coordinator begins to work on `phase` for all replicas at once, which counts as work for the first.
    pub(crate) fn serve_all(&self, phase: Phase) {
        let replicas = 0..self.phases.len();
        replicas
            .rev()
            .for_each(|replica| self.serve(replica, phase));
    }

    /// `replica` has nothing left to do on its own thread.
    pub(crate) fn end(&self, replica: usize) {
        if let Some(board) = self.phases.get(replica) {
            board.store(ENDED, Ordering::Relaxed);
        }
    }

    /// The phase of `replica`, if it is in one.
    pub(crate) fn phase(&self, replica: usize) -> Option<Phase> {
        let code = self.phases.get(replica)?.load(Ordering::Relaxed);
        PHASES.get(usize::from(code.checked_sub(1)?)).copied()
    }

    /// The replica that the coordinator has worked for last.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Replicas that are in a phase, with it.
    pub(crate) fn busy(&self) -> Vec<(usize, Phase)> {
        (0..self.phases.len())
            .filter_map(|replica| Some((replica, self.phase(replica)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_is_told_apart() {
        let progress = Progress::new(PHASES.len() + 1);
        for (replica, &phase) in PHASES.iter().enumerate() {
            progress.enter(replica, phase);
        }
        let expected: Vec<_> = PHASES.into_iter().enumerate().collect();
        assert_eq!(progress.busy(), expected);
        progress.end(1);
        assert_eq!(progress.phase(1), None);
    }
}
