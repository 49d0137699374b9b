//! What can go wrong, each in one line with its remedy.

use burn::remote::ConnectError;
use burn::tensor::{ExecutionError, TensorReadError};
use burn_dp::DataParallelError;
use thiserror::Error;

/// Why the program ends with an error.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("no server can be started on 127.0.0.1: {0}")]
    Server(#[from] std::io::Error),
    #[error(
        "{url} cannot be reached: {source}; start a Burn server there, and give its address with --hosts"
    )]
    Connect { url: String, source: ConnectError },
    #[error(transparent)]
    Replicas(#[from] DataParallelError),
    #[error("a result cannot be read off its device: {0}")]
    Value(#[from] TensorReadError),
    #[error("results cannot be read off their device: {0}")]
    Values(#[from] ExecutionError),
}
