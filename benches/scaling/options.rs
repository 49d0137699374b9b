//! Command line, and the devices that it names.

use std::path::PathBuf;

use burn::tensor::Device;
use burn_dp::DeviceIds;
use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::models::Kind;

/// Time training steps on 1..N devices, wrapped and bare, beside burn-train and PyTorch.
#[derive(Clone, Debug, Parser, Serialize)]
pub struct Options {
    /// Ordinals of the devices; with `--cpu`, how often the CPU is repeated is their count
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub devices: Vec<usize>,
    /// Use the CPU even where a GPU backend is compiled in
    #[arg(long)]
    pub cpu: bool,
    /// Numbers of replicas to run [default: 1 and all devices]
    #[arg(long, value_delimiter = ',')]
    pub replicas: Vec<usize>,
    /// Allow more replicas than devices: they share the first device
    #[arg(long)]
    pub repeat: bool,
    /// Models to run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Mlp, Kind::Conv, Kind::Transformer, Kind::Tiny])]
    pub models: Vec<Kind>,
    /// Size of models and batches: `small` suits a CPU, `full` a GPU
    #[arg(long, value_enum, default_value_t = Size::Small)]
    pub size: Size,
    /// Whether the batch of one step stays the same (strong scaling) or grows with the devices (weak)
    #[arg(long, value_enum, default_value_t = Scaling::Strong)]
    pub scaling: Scaling,
    /// Rounds; each contender runs once a round
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// Steps of a round
    #[arg(long, default_value_t = 10)]
    pub steps: usize,
    /// Leave bare Burn out, so that the wrapper's first step pays for kernels and their tuning itself
    #[arg(long)]
    pub no_bare: bool,
    /// Also run burn-train's MultiDevice step
    #[arg(long)]
    pub burn_train: bool,
    /// Also run burn-train's DistributedDataParallel, which needs GPUs with NCCL
    #[arg(long)]
    pub ddp: bool,
    /// Also run burn-dp with an optimizer on every replica and all-reduced gradients, which needs distinct devices
    #[arg(long)]
    pub all_reduce: bool,
    /// Also run PyTorch through `benches/scaling/torch_peer.py`, if `python3` can import torch
    #[arg(long)]
    pub torch: bool,
    /// Write everything here as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw milliseconds per step here as SVG
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Passed by `cargo bench`; means nothing here
    #[arg(long, hide = true)]
    pub bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    Small,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    Strong,
    Weak,
}

/// The devices of a run, in order.
pub struct Devices {
    pub all: Vec<Device>,
    pub cuda: bool,
    pub ordinals: Vec<usize>,
}

impl Devices {
    pub fn describe(&self) -> String {
        let names: Vec<String> = self
            .all
            .iter()
            .map(|device| format!("{device:?}"))
            .collect();
        names.join(", ")
    }

    /// The first `count`; beyond their number, the first one again.
    pub fn take(&self, count: usize) -> Vec<Device> {
        (0..count)
            .map(|index| self.all.get(index).unwrap_or(&self.all[0]).clone())
            .collect()
    }

    pub fn ids(&self, count: usize) -> DeviceIds {
        DeviceIds::devices(self.take(count))
    }
}

impl Options {
    pub fn describe(&self) -> String {
        format!(
            "{:?} size, {:?} scaling, {} rounds of {} steps",
            self.size, self.scaling, self.rounds, self.steps
        )
    }

    pub fn devices(&self) -> Result<Devices, String> {
        if self.devices.is_empty() || self.rounds == 0 || self.steps == 0 {
            return Err("name at least one device, round and step".into());
        }
        let cuda = cfg!(feature = "cuda") && !self.cpu;
        let device = |ordinal: usize| {
            #[cfg(feature = "cuda")]
            if cuda {
                return Device::cuda(ordinal);
            }
            let _ = ordinal;
            Device::flex()
        };
        Ok(Devices {
            all: self
                .devices
                .iter()
                .map(|&ordinal| device(ordinal))
                .collect(),
            cuda,
            ordinals: self.devices.clone(),
        })
    }

    /// The numbers of replicas to run.
    pub fn counts(&self, devices: &Devices) -> Result<Vec<usize>, String> {
        let most = devices.all.len();
        if self.replicas.is_empty() {
            return Ok(if most == 1 { vec![1] } else { vec![1, most] });
        }
        match self
            .replicas
            .iter()
            .find(|&&count| count == 0 || (count > most && !self.repeat))
        {
            None => Ok(self.replicas.clone()),
            Some(count) => Err(format!(
                "{count} replicas on {most} devices: name more devices, or let them share one with --repeat"
            )),
        }
    }
}
