//! What can go wrong, each in one line with its remedy.

use burn::tensor::{ExecutionError, TensorReadError};
use burn_dp::DataParallelError;
use thiserror::Error;

/// Why the program ends with an error.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Replicas(#[from] DataParallelError),
    #[error("a result cannot be read off its device: {0}")]
    Value(#[from] TensorReadError),
    #[error("results cannot be read off their device: {0}")]
    Values(#[from] ExecutionError),
}

impl Problem {
    /// 2 for a wrong command line, as clap has it; 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }
}
