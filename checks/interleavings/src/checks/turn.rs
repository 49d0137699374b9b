//! Turns come in order, whichever thread is there first.

use crate::sync::{Arc, Mutex};
use crate::turn::Turn;
use shuttle::thread;

pub fn turns_come_in_order() {
    shuttle::check_dfs(|| take_turns(3, None), Some(20_000));
}

pub fn a_panic_ends_its_turn() {
    shuttle::check_random(|| take_turns(4, Some(1)), 10_000);
}

fn take_turns(count: usize, failing: Option<usize>) {
    let turn = Arc::new(Turn::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let holders: Vec<_> = (0..count)
        .map(|index| {
            let (turn, seen) = (turn.clone(), seen.clone());
            thread::spawn(move || {
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
    assert_eq!(*seen.lock().unwrap(), (0..count).collect::<Vec<_>>());
}
