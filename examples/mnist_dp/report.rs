//! The report of a run, as JSON.

use std::path::Path;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::problem::{Problem, write_whole};

#[derive(Debug, Serialize)]
pub struct Report {
    pub configuration: Arguments,
    pub data: String,
    /// Why these devices.
    pub reason: String,
    /// Device of each replica; the first is the primary.
    pub devices: Vec<String>,
    pub epochs: Vec<Epoch>,
    pub seconds: f64,
    pub test_accuracy: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Epoch {
    pub epoch: u32,
    pub train_loss: f64,
    pub train_accuracy: f64,
    pub test_loss: f64,
    pub test_accuracy: f64,
    /// Of training alone.
    pub seconds: f64,
    pub steps_per_second: f64,
}

pub fn write(report: &Report, file: &Path) -> Result<(), Problem> {
    write_whole(file, |partial| {
        let json = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        std::fs::write(partial, json).map_err(|error| error.to_string())
    })
}
