//! Trains a small causal transformer on the letters of sentences, on several replicas. Sentences differ in length, so the loss
//! is weighted by the letters that are not padding (`model.rs`).
//!
//! ```text
//! cargo run --example transformer_lm -- --replicas 2
//! ```

mod arguments;
mod batch;
#[path = "../command_line/mod.rs"]
mod command_line;
mod grammar;
mod model;
mod numbers;
mod problem;
mod sample;
mod training;

use std::process::ExitCode;

use arguments::Arguments;
use problem::Problem;

fn main() -> ExitCode {
    command_line::run(
        |arguments: Arguments| training::run(&arguments),
        Problem::exit_code,
    )
}
