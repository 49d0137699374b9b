//! Trains a small causal transformer on the letters of sentences, on several replicas. Sentences differ in length, so the loss
//! is weighted by the letters that are not padding (`model.rs`).
//!
//! ```text
//! cargo run --example transformer_lm -- --replicas 2
//! ```

mod arguments;
mod batch;
mod grammar;
mod model;
mod numbers;
mod problem;
mod sample;
mod training;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use problem::Problem;

fn main() -> ExitCode {
    let outcome = match Arguments::try_parse() {
        Ok(arguments) => training::run(&arguments),
        Err(error) if error.use_stderr() => Err(Problem::command_line(&error)),
        Err(help) => {
            print!("{help}");
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}
