//! Results: rows, table, JSON.

use burn_dp::{PhaseStats, StepStats};
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

use crate::models::{Kind, Shape};
use crate::options::{Devices, Options};

#[derive(Debug, Serialize)]
pub struct Report {
    options: Options,
    devices: String,
    pub models: Vec<Model>,
}

#[derive(Debug, Serialize)]
pub struct Model {
    pub kind: Kind,
    shape: Shape,
    pub rows: Vec<Row>,
}

/// One contender on one number of replicas.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub replicas: usize,
    samples: usize,
    first_step_seconds: f64,
    /// Milliseconds a step, one value a round.
    pub rounds: Vec<f64>,
    /// Milliseconds a step by phase: broadcast, scatter, apply, reduce, gather, optimizer.
    #[serde(default)]
    phases: Option<[f64; 6]>,
    /// Copies of parameters and gradients between devices, a step.
    #[serde(default)]
    transfers: Option<f64>,
    /// Bytes held by the allocator of each device.
    #[serde(default)]
    pub memory: Vec<u64>,
}

impl Row {
    pub fn new(name: String, replicas: usize, samples: usize, first_step_seconds: f64) -> Self {
        Self {
            name,
            replicas,
            samples,
            first_step_seconds,
            rounds: Vec::new(),
            phases: None,
            transfers: None,
            memory: Vec::new(),
        }
    }

    pub fn phases(&mut self, before: &StepStats, after: &StepStats) {
        let steps = (after.steps - before.steps).max(1) as f64;
        let mean = |phase: fn(&StepStats) -> PhaseStats| {
            (phase(after).nanoseconds - phase(before).nanoseconds) as f64 / 1e6 / steps
        };
        self.phases = Some([
            mean(|stats| stats.broadcast),
            mean(|stats| stats.scatter),
            mean(|stats| stats.apply),
            mean(|stats| stats.reduce),
            mean(|stats| stats.gather),
            mean(|stats| stats.optimizer),
        ]);
        self.transfers = Some((after.transfers() - before.transfers()) as f64 / steps);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut rounds = self.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds
    }

    pub fn median(&self) -> f64 {
        let rounds = self.sorted();
        let middle = rounds.len() / 2;
        match rounds.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => rounds[middle],
            _ => (rounds[middle - 1] + rounds[middle]) / 2.0,
        }
    }

    fn samples_per_second(&self) -> f64 {
        self.samples as f64 / self.median() * 1e3
    }

    /// From how many rows a batch on this is faster than `bare`, by the model of a step that is `c rows / replicas + o`: bare Burn's
    /// time gives `c`, what this takes beyond its share gives `o`, and both are equal at `o / (c (1 - 1 / replicas))` rows.
    fn break_even(&self, bare: &Row) -> f64 {
        let (replicas, row) = (self.replicas as f64, bare.median() / bare.samples as f64);
        let overhead = self.median() - row * self.samples as f64 / replicas;
        (overhead / (row * (1.0 - 1.0 / replicas))).max(0.0)
    }
}

impl Report {
    pub fn new(options: &Options, devices: &Devices) -> Self {
        Self {
            options: options.clone(),
            devices: devices.describe(),
            models: Vec::new(),
        }
    }

    pub fn add(&mut self, kind: Kind, shape: &Shape, rows: Vec<Row>) {
        self.models.push(Model {
            kind,
            shape: shape.clone(),
            rows,
        });
    }

    /// Where the wrapper on several devices begins to pay, a line each.
    pub fn break_even_of_last(&self) -> Vec<String> {
        let Some(Model { rows, .. }) = self.models.last() else {
            return Vec::new();
        };
        let Some(bare) = rows.first().filter(|row| row.name == "bare Burn") else {
            return Vec::new();
        };
        let several = rows
            .iter()
            .filter(|row| row.replicas > 1 && row.name.starts_with("burn-dp"));
        several
            .map(|row| {
                format!(
                    "{} on {} devices: faster than one from about {:.0} rows a batch on",
                    row.name,
                    row.replicas,
                    row.break_even(bare).ceil()
                )
            })
            .collect()
    }

    pub fn table_of_last(&self) -> String {
        let Some(model) = self.models.last() else {
            return String::new();
        };
        let baseline = model.rows.first();
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "contender",
            "replicas",
            "ms/step",
            "min..max",
            "samples/s",
            "vs bare",
            "first step s",
            "broadcast",
            "scatter",
            "apply",
            "reduce",
            "gather",
            "optimizer",
            "transfers",
            "pool MiB",
        ]);
        for row in &model.rows {
            let rounds = row.sorted();
            // Speed against bare Burn, by samples: what weak and strong scaling have in common.
            let speed = baseline.map_or(f64::NAN, |bare| {
                row.samples_per_second() / bare.samples_per_second()
            });
            let mut cells = vec![
                row.name.clone(),
                row.replicas.to_string(),
                format!("{:.3}", row.median()),
                format!(
                    "{:.3}..{:.3}",
                    rounds.first().unwrap_or(&f64::NAN),
                    rounds.last().unwrap_or(&f64::NAN)
                ),
                format!("{:.0}", row.samples_per_second()),
                format!("{speed:.3}x"),
                format!("{:.2}", row.first_step_seconds),
            ];
            match row.phases {
                Some(phases) => cells.extend(phases.iter().map(|phase| format!("{phase:.3}"))),
                None => cells.extend((0..6).map(|_| String::new())),
            }
            cells.push(
                row.transfers
                    .map(|count| format!("{count:.0}"))
                    .unwrap_or_default(),
            );
            let memory = row.memory.iter().map(|bytes| (bytes >> 20).to_string());
            cells.push(memory.collect::<Vec<_>>().join(" "));
            table.add_row(cells);
        }
        table.to_string()
    }
}
