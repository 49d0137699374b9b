//! Taking turns: replicas run a part of their work one after another, in order.

use crate::sync::{Condvar, Mutex, PoisonError};

/// Lets holder 0 go first, then 1, and so on.
///
/// Burn's backends keep one random generator a process (flex and CubeCL alike), so replicas that draw from it at the same
/// time get numbers that depend on the scheduler. Where a model draws numbers, its forwards take turns; backwards do not.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    next: Mutex<usize>,
    changed: Condvar,
}

impl Turn {
    /// Wait for the turn of `index`; it ends when the guard is dropped, in a panic too.
    pub(crate) fn wait(&self, index: usize) -> TurnGuard<'_> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        while *next != index {
            next = self
                .changed
                .wait(next)
                .unwrap_or_else(PoisonError::into_inner);
        }
        TurnGuard { turn: self }
    }
}

pub(crate) struct TurnGuard<'a> {
    turn: &'a Turn,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *self
            .turn
            .next
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
        self.turn.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn turns_come_in_order_even_if_one_panics() {
        let turn = Arc::new(Turn::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..4usize)
            .rev()
            .map(|index| {
                let (turn, seen) = (turn.clone(), seen.clone());
                std::thread::spawn(move || {
                    let _guard = turn.wait(index);
                    seen.lock().unwrap().push(index);
                    assert_ne!(index, 1, "holder 1 fails on purpose");
                })
            })
            .collect();
        let failed = threads.into_iter().filter_map(|t| t.join().err()).count();
        assert_eq!(failed, 1);
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3]);
    }
}
