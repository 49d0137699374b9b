//! What must hold on real cards: `cargo test --release --features cuda --test gpus -- --test-threads 1 --nocapture`.
//!
//! Tests that need two cards say so and end where there is one. With `NCCL` off the library path copies go through the host,
//! and everything must hold all the same.

#[allow(dead_code)] // shared with the behaviour tests
#[path = "../behaviour/compare.rs"]
mod compare;
#[allow(dead_code, unused_imports)]
#[path = "../behaviour/models.rs"]
mod models;

mod cards;
mod equivalence;
mod failure;
mod memory;
mod placement;
mod random;
mod statistics;
mod steps;
