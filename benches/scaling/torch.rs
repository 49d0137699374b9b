//! PyTorch on the same devices, through `torch_peer.py`.

use std::error::Error;
use std::process::Command;

use crate::models::{Kind, Shape};
use crate::options::{Devices, Options, Scaling};
use crate::report::Row;

const SCRIPT: &str = include_str!("torch_peer.py");

pub fn measure(
    options: &Options,
    devices: &Devices,
    kind: Kind,
    shape: &Shape,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let ordinals: Vec<String> = devices.ordinals.iter().map(ToString::to_string).collect();
    // A file of its own: DDP starts processes anew, which a script on the command line cannot.
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("torch_peer.py");
    std::fs::write(&script, SCRIPT)?;
    let output = Command::new("python3")
        .arg(&script)
        .args(["--model", &format!("{kind:?}").to_lowercase()])
        .args(["--batch", &shape.batch.to_string()])
        .args(["--width", &shape.width.to_string()])
        .args(["--layers", &shape.layers.to_string()])
        .args(["--input", &shape.input.to_string()])
        .args(["--rounds", &options.rounds.to_string()])
        .args(["--steps", &options.steps.to_string()])
        .args([
            "--devices",
            &if devices.cuda {
                ordinals.join(",")
            } else {
                "cpu".into()
            },
        ])
        .args(if options.scaling == Scaling::Weak {
            &["--weak"][..]
        } else {
            &[]
        })
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(serde_json::from_slice(&output.stdout)?),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            println!(
                "PyTorch was left out: {}",
                text.lines().last().unwrap_or("it failed")
            );
            Ok(Vec::new())
        }
        Err(error) => {
            println!("PyTorch was left out: python3: {error}");
            Ok(Vec::new())
        }
    }
}
