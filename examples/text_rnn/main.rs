//! Trains an LSTM to tell the language of a line of text, on several replicas. The hidden state travels with the batch: its
//! batch dim is 1 where that of the text is 0, which one attribute says (`batch.rs`).
//!
//! ```text
//! cargo run --example text_rnn -- --replicas 2
//! ```

mod arguments;
mod batch;
mod lines;
mod model;
mod problem;
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
