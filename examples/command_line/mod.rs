//! What the `main` functions of the examples share.

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;

/// Parse the command line, run `program`, and tell what went wrong in one line.
///
/// The exit code is 2 for a wrong command line, as clap has it, and what `exit_code` says for an error of the program.
pub fn run<A: Parser, E: Display>(
    program: impl FnOnce(A) -> Result<(), E>,
    exit_code: impl FnOnce(&E) -> u8,
) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            eprintln!("error: {first}; --help lists the options");
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    match program(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(exit_code(&error))
        }
    }
}
