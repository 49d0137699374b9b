//! The queues, turns and the time limit of burn-data-parallel, from its own files, over shuttle's threads instead of those of
//! `std`: `cargo run` tries many orders of execution (<https://docs.rs/shuttle>). A failure prints the order that led to it.
//!
//! A program and not tests, because under `cargo test` the files would bring their unit tests with them.

mod checks {
    pub mod turn;
    pub mod watch;
    pub mod workers;
}
#[path = "../../../crates/burn-data-parallel/src/progress.rs"]
mod progress;
mod sync;
#[path = "../../../crates/burn-data-parallel/src/turn.rs"]
mod turn;
#[path = "../../../crates/burn-data-parallel/src/watch.rs"]
mod watch;
#[path = "../../../crates/burn-data-parallel/src/workers.rs"]
mod workers;

/// As much of the crate's errors as these files name.
mod error {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Phase {
        Broadcast,
        Scatter,
        Apply,
        Backward,
        Gather,
        Reduce,
        Optimizer,
    }

    #[derive(Debug)]
    pub enum DataParallelError {
        Thread {
            replica: usize,
            cause: std::io::Error,
        },
    }
}

/// Run the named checks, saying which.
macro_rules! run {
    ($($module:ident :: $check:ident),* $(,)?) => {
        $(
            let started = std::time::Instant::now();
            checks::$module::$check();
            println!("{}: {} ... ok ({:.1} s)", stringify!($module), stringify!($check), started.elapsed().as_secs_f64());
        )*
    };
}

fn main() {
    run![
        turn::turns_come_in_order,
        turn::a_panic_ends_its_turn,
        turn::a_turn_that_never_comes_keeps_nobody,
        workers::results_come_in_order,
        workers::callers_at_the_same_time_get_their_own_results,
        workers::a_panic_is_one_replicas_result,
        watch::a_step_is_kept_exactly_if_its_caller_has_the_result,
        watch::callers_at_the_same_time_wait_for_each_other,
        watch::replicas_run_under_the_limit,
        watch::a_panic_reaches_the_caller,
        watch::the_coordinator_may_be_dropped_by_itself,
        watch::nobody_waits_for_a_step_that_was_given_up,
    ];
}
