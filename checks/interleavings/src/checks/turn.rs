//! Turns come in order, whichever thread is there first.

use crate::sync::{Arc, Mutex};
use crate::turn::Turn;
use shuttle::thread;

pub fn turns_come_in_order() {
    shuttle::check_dfs(|| take_turns(3, None, None), Some(20_000));
}

pub fn a_panic_ends_its_turn() {
    shuttle::check_random(|| take_turns(4, Some(1), None), 10_000);
}

pub fn a_turn_that_never_comes_keeps_nobody() {
    for missing in 0..4 {
        shuttle::check_random(move || take_turns(4, None, Some(missing)), 5_000);
    }
}

fn take_turns(count: usize, failing: Option<usize>, missing: Option<usize>) {
    let turn = Arc::new(Turn::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let holders: Vec<_> = (0..count)
        .map(|index| {
            let (turn, seen) = (turn.clone(), seen.clone());
            thread::spawn(move || {
                if missing == Some(index) {
                    return turn.leave(index);
                }
                let turns = || {
                    let _guard = turn.wait(index);
                    seen.lock().unwrap().push(index);
                    if failing == Some(index) {
                        std::panic::resume_unwind(Box::new("fails on purpose"));
                    }
                };
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(turns));
            })
        })
        .collect();
    holders
        .into_iter()
        .for_each(|holder| holder.join().unwrap());
    let expected: Vec<_> = (0..count).filter(|&index| missing != Some(index)).collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}
