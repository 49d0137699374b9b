//! The command line.

use clap::{Parser, value_parser};

/// Train a small transformer to write sentences letter by letter, on several replicas
#[derive(Clone, Debug, Parser)]
#[command(name = "transformer_lm", version)]
pub struct Arguments {
    /// Replicas that each batch is spread over, all on the CPU
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u16).range(1..=64))]
    pub replicas: u16,
    /// Times to go over the training data
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(1..=1000))]
    pub epochs: u16,
    /// Sentences of a batch, over all replicas
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=100_000))]
    pub batch_size: u32,
    /// Sentences to write at the end
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u16).range(1..=1000))]
    pub sentences: u16,
    /// Seed of the initial weights, the sentences, their order and the sampling
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
