//! Trains an LSTM to tell the language of a line of text, on several replicas. The hidden state travels with the batch: its
//! batch dim is 1 where that of the text is 0, which one attribute says (`batch.rs`).
//!
//! ```text
//! cargo run --example text_rnn -- --replicas 2
//! ```

mod arguments;
mod batch;
#[path = "../command_line/mod.rs"]
mod command_line;
mod lines;
mod model;
mod problem;
mod training;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    command_line::run(|arguments: Arguments| training::run(&arguments), |_| 1)
}
