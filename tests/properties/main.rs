//! Properties over random module trees and random batches: what `tests/behaviour` shows for chosen models holds for those that
//! nobody thought of.
//!
//! `PROPTEST_CASES` sets the number of cases of every property, for a longer run.

#[allow(dead_code)] // shared with the behaviour tests
#[path = "../behaviour/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "../behaviour/models.rs"]
mod models;

mod plan;
mod spec;
mod training;
mod tree;
mod value;

mod distinct;
mod equivalence;
mod records;
mod structures;
mod tied;

use proptest::test_runner::Config;

/// `cases`, unless `PROPTEST_CASES` says otherwise. No file of seeds: a case that failed becomes a test with a name.
fn config(cases: u32) -> Config {
    let asked = Config::default();
    Config {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => asked.cases,
            None => cases,
        },
        failure_persistence: None,
        // A tree that fails shrinks in many small steps, each of which trains it.
        max_shrink_iters: 400,
        ..asked
    }
}
