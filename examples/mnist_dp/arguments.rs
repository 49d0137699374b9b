//! Command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};
use serde::Serialize;

/// Train a small conv net on handwritten digits, data-parallel.
#[derive(Clone, Debug, Parser, Serialize)]
#[command(version, about)]
pub struct Arguments {
    /// Ordinals of the devices to use, the first being the primary, e.g. 0,1 [default: all visible]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "IDS",
        conflicts_with = "replicas"
    )]
    pub device_ids: Option<Vec<usize>>,

    /// Run so many replicas on the CPU instead
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=64), conflicts_with = "visible")]
    pub replicas: Option<u16>,

    /// Choose cards by ordinal or UUID as CUDA_VISIBLE_DEVICES does, but strictly, e.g. "3,2,0,1"
    #[arg(long, value_name = "LIST")]
    pub visible: Option<String>,

    /// Where replicas run; `auto` takes the GPUs that are visible, and falls to the CPU where there are none
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,

    /// Data: `auto` or `digits` (1,797 digits that ship with the example), `mnist` (downloads MNIST), or a directory of IDX
    /// files, gzipped or not, as MNIST and Fashion-MNIST ship
    #[arg(long, value_name = "auto|digits|mnist|DIR", default_value = "auto")]
    pub data: String,

    /// Passes over the training data
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=10_000))]
    pub epochs: u32,

    /// Rows of a batch, over all replicas
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub batch_size: u32,

    /// First learning rate of Adam; it falls to 0 along a cosine
    #[arg(long, default_value_t = 0.002, value_parser = positive, allow_negative_numbers = true)]
    pub lr: f64,

    /// Seed of the initial weights and of the shuffling
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Give a step up that takes longer than so many seconds, instead of waiting for it
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true)]
    pub time_limit: Option<f64>,

    /// Save the weights here after training, or where Ctrl-C stops it
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Start from the weights saved here
    #[arg(long, value_name = "FILE")]
    pub load: Option<PathBuf>,

    /// Write configuration, devices and per-epoch figures here as JSON
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Draw loss and accuracy over the epochs here as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Which of the compiled backends to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    Auto,
    Cpu,
    Cuda,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("give a number above 0".into()),
    }
}
