//! Which devices this program would use, and why: `cargo run --example devices`.
//!
//! `devices` prints the mapping from the cards of `nvidia-smi` to ordinals, the reason, and what is there to run
//! them. `devices explain "0,2,-1,1"` prints what a mask would select, on this machine or on one described in a file.

mod arguments;
mod backends;
mod explain;
mod problem;
mod report;

use arguments::{Arguments, Task};
use problem::Problem;
use std::process::ExitCode;

fn main() -> ExitCode {
    match arguments::read().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(problem.exit_code())
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    let text = match &arguments.task {
        None => report::of_this_machine(arguments.kind.into(), arguments.json)?,
        Some(Task::Explain(asked)) => explain::mask(arguments.kind.into(), asked, arguments.json)?,
    };
    problem::print(&text)
}
