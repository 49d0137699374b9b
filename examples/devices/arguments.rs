//! The command line.

use crate::problem::Problem;
use burn_visible_devices::DeviceKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which devices a program would use, and why
#[derive(Debug, Parser)]
#[command(name = "devices", version)]
pub struct Arguments {
    /// What to do; without it, this machine's devices are listed
    #[command(subcommand)]
    pub task: Option<Task>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Whose devices
    #[arg(long, global = true, value_enum, default_value_t = Kind::Cuda)]
    pub kind: Kind,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Say what a mask would select
    Explain(Asked),
}

/// A mask and where to apply it.
#[derive(Debug, Args)]
pub struct Asked {
    /// The value of CUDA_VISIBLE_DEVICES (of HIP_VISIBLE_DEVICES with --kind rocm), such as "0,2,-1,1"
    #[arg(
        allow_hyphen_values = true,
        required_unless_present = "unset",
        conflicts_with = "unset"
    )]
    pub mask: Option<String>,
    /// As if the variable were not set
    #[arg(long)]
    pub unset: bool,
    /// The value of CUDA_DEVICE_ORDER; left out, it is not set
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    pub order: Option<String>,
    /// A file that describes the cards; left out, this machine's cards
    #[arg(long, value_name = "FILE.json")]
    pub inventory: Option<PathBuf>,
}

/// Whose devices.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
    /// NVIDIA cards
    Cuda,
    /// AMD cards
    Rocm,
}

impl From<Kind> for DeviceKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Cuda => Self::Cuda,
            Kind::Rocm => Self::Rocm,
        }
    }
}

/// Reads the command line. Help and version are printed here and end the program.
pub fn read() -> Result<Arguments, Problem> {
    Arguments::try_parse().map_err(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        // Clap's first paragraph is the problem; what follows it is usage.
        let text = error.to_string();
        let problem = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = problem.split_whitespace().collect();
        Problem::Usage(words.join(" ").trim_start_matches("error: ").to_owned())
    })
}
