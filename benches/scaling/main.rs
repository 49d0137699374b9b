//! One step on 1 to N devices, beside every peer: `cargo bench --bench scaling --features train -- --help`.
//!
//! All contenders of a model run in one process and take turns, so that they see the same machine; medians are of whole
//! rounds, with the devices synchronized at the end of each.

mod contenders;
#[cfg(feature = "train")]
mod ddp;
mod measure;
mod models;
mod options;
mod plot;
#[cfg(feature = "train")]
mod quiet;
mod report;
mod torch;

use std::error::Error;

use clap::Parser;

use crate::options::Options;
use crate::report::Report;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let devices = options.devices()?;
    println!("{} on {}", options.describe(), devices.describe());
    let mut report = Report::new(&options, &devices);
    for &kind in &options.models {
        let shape = kind.shape(options.size);
        println!("\n{kind:?}: {}", shape.describe());
        let mut rows = measure::compare(&options, &devices, kind, &shape)?;
        #[cfg(feature = "train")]
        if options.ddp {
            for count in options.counts(&devices)? {
                rows.push(ddp::measure(&options, &devices, kind, &shape, count)?);
            }
        }
        if options.torch {
            rows.extend(torch::measure(&options, &devices, kind, &shape)?);
        }
        report.add(kind, &shape, rows);
        println!("{}", report.table_of_last());
        // Replicas that share a device divide nothing.
        if !options.repeat && !options.cpu {
            for line in report.break_even_of_last() {
                println!("{line}");
            }
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&report)?)?;
    }
    if let Some(file) = &options.svg {
        plot::write(&report, file)?;
    }
    Ok(())
}
