//! The command line.

use clap::{Parser, value_parser};

/// Train an LSTM to tell the language of a line of text, on several replicas
#[derive(Clone, Debug, Parser)]
#[command(name = "text_rnn", version)]
pub struct Arguments {
    /// Replicas that each batch is spread over, all on the CPU
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u16).range(1..=64))]
    pub replicas: u16,
    /// Times to go over the training data
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u16).range(1..=1000))]
    pub epochs: u16,
    /// Lines of a batch, over all replicas
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=100_000))]
    pub batch_size: u32,
    /// Seed of the initial weights, the lines and their order
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
