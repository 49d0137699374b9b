//! Trains a small conv net on handwritten digits, on every device that is chosen.
//!
//! `cargo run --release --example mnist_dp` needs no arguments, no GPU and no network: the data ships with the example.
//! `--help` lists the options.

mod arguments;
#[path = "../command_line/mod.rs"]
mod command_line;
mod dataset;
mod devices;
mod interrupt;
mod model;
mod plot;
mod problem;
mod progress;
mod report;
mod training;
mod weights;

use std::process::ExitCode;

use crate::arguments::Arguments;
use crate::problem::Problem;

fn main() -> ExitCode {
    command_line::run(run, Problem::exit_code)
}

fn run(arguments: Arguments) -> Result<(), Problem> {
    // What would only fail at the end of a run is looked at before it.
    for file in [&arguments.save, &arguments.report, &arguments.plot] {
        problem::check_writable(file.as_deref())?;
    }
    let data = dataset::load(&arguments.data)?;
    println!("data: {}", data.describe());
    let chosen = devices::choose(&arguments)?;
    println!("devices: {}", chosen.reason);
    println!("{}", chosen.table);

    let report = training::train(&arguments, &data, chosen)?;
    if let Some(file) = &arguments.report {
        report::write(&report, file)?;
        println!("report: {}", file.display());
    }
    if let Some(file) = &arguments.plot {
        plot::write(&report, file)?;
        println!("plot: {}", file.display());
    }
    println!("test accuracy: {:.4}", report.test_accuracy);
    Ok(())
}
