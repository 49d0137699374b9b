//! Taking turns: replicas run a part of their work one after another, in order.

use std::collections::HashSet;

use crate::sync::{Condvar, Mutex, PoisonError};

/// Lets holder 0 go first, then 1, and so on.
///
/// Burn's backends keep one random generator a process (flex and CubeCL alike), so replicas that draw from it at the same
/// time get numbers that depend on the scheduler. Where a model draws numbers, its forwards take turns; backwards do not.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    past: Mutex<HashSet<usize>>,
    changed: Condvar,
}

impl Turn {
    /// Wait for the turn of `index`; it ends when the guard is dropped, in a panic too.
    pub(crate) fn wait(&self, index: usize) -> TurnGuard<'_> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        while !(0..index).all(|earlier| past.contains(&earlier)) {
            past = self
                .changed
                .wait(past)
                .unwrap_or_else(PoisonError::into_inner);
        }
        TurnGuard { turn: self, index }
    }

    /// The turn of `index` is over, or never comes: it must not keep those after it.
    pub(crate) fn leave(&self, index: usize) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.insert(index) {
            self.changed.notify_all();
        }
    }
}

pub(crate) struct TurnGuard<'a> {
    turn: &'a Turn,
    index: usize,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.turn.leave(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn turns_come_in_order_even_if_one_panics_and_one_never_comes() {
        let turn = Arc::new(Turn::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = (0..5usize)
            .rev()
            .map(|index| {
                let (turn, seen) = (turn.clone(), seen.clone());
                std::thread::spawn(move || {
                    if index == 2 {
                        return turn.leave(index);
                    }
                    let _guard = turn.wait(index);
                    seen.lock().unwrap().push(index);
                    assert_ne!(index, 1, "holder 1 fails on purpose");
                })
            })
            .collect();
        let failed = threads.into_iter().filter_map(|t| t.join().err()).count();
        assert_eq!(failed, 1);
        assert_eq!(*seen.lock().unwrap(), [0, 1, 3, 4]);
    }
}
