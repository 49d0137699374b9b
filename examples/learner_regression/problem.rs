//! What can go wrong.

use std::sync::Arc;

use burn::tensor::TensorReadError;
use burn::train::TrainingError;
use burn_dp::DataParallelError;
use thiserror::Error;

/// Why the program ends with an error.
#[derive(Debug, Error)]
pub enum Problem {
    /// The replicas cannot be set up.
    #[error(transparent)]
    Replicas(#[from] DataParallelError),
    /// The schedule of the learning rate has values that do not fit.
    #[error("the learning rate's schedule is not accepted: {0}")]
    Schedule(String),
    /// There is no place for what burn-train logs.
    #[error(
        "cannot log to the folder for temporary files: {0}; set TMPDIR to one that can be written"
    )]
    Logs(std::io::Error),
    /// The training stopped.
    #[error("the training stopped: {0}")]
    Training(Arc<TrainingError>),
    /// The loss cannot be read off its device.
    #[error("the loss cannot be read: {0}")]
    Loss(#[from] TensorReadError),
}
