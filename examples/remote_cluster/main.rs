//! Trains a small model on the devices of several Burn servers: remote devices are devices like any other, so a list of them
//! is all that data parallelism over a cluster needs. Here two servers run in this program, on loopback.
//!
//! ```text
//! cargo run --features remote-server --example remote_cluster
//! ```

mod arguments;
mod cluster;
#[path = "../command_line/mod.rs"]
mod command_line;
mod compare;
mod model;
mod problem;
mod training;

use std::process::ExitCode;

use arguments::Arguments;
use problem::Problem;

fn main() -> ExitCode {
    command_line::run(|arguments: Arguments| run(&arguments), |_| 1)
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    if !arguments.hosts.is_empty() {
        return training::run(arguments, cluster::connect(&arguments.hosts)?);
    }
    // The servers end when this is dropped, so it is kept until the training has ended.
    let servers = cluster::Servers::start(2)?;
    training::run(arguments, cluster::connect(&servers.urls)?)
}
