//! The command line.

use clap::{Parser, value_parser};

/// Train a small model on the devices of several Burn servers
#[derive(Clone, Debug, Parser)]
#[command(name = "remote_cluster", version)]
pub struct Arguments {
    /// Servers that are running already, e.g. ws://gpu1:3000,ws://gpu2:3000 [default: two, started in this program]
    #[arg(long, value_delimiter = ',', value_name = "URLS", value_parser = url)]
    pub hosts: Vec<String>,
    /// Training steps
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = value_parser!(u16).range(1..=1000))]
    pub steps: u16,
    /// Rows of a batch, over all replicas
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u16).range(1..=10_000))]
    pub batch_size: u16,
    /// Seed of the initial weights
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn url(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("ws://").unwrap_or_default();
    if address.contains(':') {
        Ok(text.into())
    } else {
        Err("give ws://NAME:PORT".into())
    }
}
