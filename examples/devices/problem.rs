//! What can go wrong, and printing that does not panic.

use burn_visible_devices::VisibilityError;
use std::io::{self, ErrorKind, Write};
use thiserror::Error;

/// Why the program ends with an error.
#[derive(Debug, Error)]
pub enum Problem {
    /// The inventory cannot be used.
    #[error(transparent)]
    Visibility(#[from] VisibilityError),
    /// The answer cannot be written as JSON.
    #[error("the answer cannot be written as JSON: {0}; leave --json out")]
    Json(#[from] serde_json::Error),
    /// The answer cannot be printed.
    #[error("the answer cannot be printed: {0}; check where the output goes")]
    Output(#[from] io::Error),
    /// Arguments that cannot be read.
    #[error("{0}; `devices --help` lists what can be asked")]
    Usage(String),
    /// An option that the chosen kind of device does not have.
    #[error("--order is CUDA's alone; leave it out with --kind rocm")]
    OrderWithoutCuda,
}

impl Problem {
    /// 2 for a call that cannot be meant, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::OrderWithoutCuda => 2,
            _ => 1,
        }
    }
}

/// Prints the answer. A reader that has seen enough, such as `head`, is no error.
pub fn print(text: &str) -> Result<(), Problem> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
