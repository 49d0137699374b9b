//! The command line.

use clap::Parser;

/// Train a small regression by burn-train's Learner, on several replicas
#[derive(Debug, Parser)]
#[command(name = "learner_regression", version)]
pub struct Arguments {
    /// Replicas that each batch is spread over, all on the CPU
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub replicas: u16,
    /// Times to go over the training data
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub epochs: u16,
}
