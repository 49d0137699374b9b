//! Timing: contenders take turns, round by round.

use std::error::Error;
use std::time::Instant;

use crate::contenders::{AllReduced, Bare, Contender, Wrapped, copy};
use crate::models::{Batch, Kind, Net, Shape};
use crate::options::{Devices, Options, Scaling};
use crate::report::Row;

pub fn compare(
    options: &Options,
    devices: &Devices,
    kind: Kind,
    shape: &Shape,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let device = devices.all[0].clone().autodiff();
    device.seed(1);
    let net = Net::new(kind, shape, &device);
    let mut entrants: Vec<(Box<dyn Contender>, usize)> = Vec::new();
    for count in options.counts(devices)? {
        let rows = match options.scaling {
            Scaling::Strong => shape.batch,
            Scaling::Weak => shape.batch * count,
        };
        let batch = Batch::random(kind, shape, rows, &device);
        if !options.no_bare && (entrants.is_empty() || options.scaling == Scaling::Weak) {
            let bare = Bare::new(copy(&net, &device), batch.clone(), device.clone());
            entrants.push((Box::new(bare), rows));
        }
        #[cfg(feature = "train")]
        if options.burn_train && count > 1 {
            let peer =
                crate::contenders::MultiDevice::new(copy(&net, &device), &batch, devices, count);
            entrants.push((Box::new(peer), rows));
        }
        if options.all_reduce && count > 1 {
            let all_reduced = AllReduced::new(copy(&net, &device), batch.clone(), devices, count)?;
            entrants.push((Box::new(all_reduced), rows));
        }
        let wrapped = Wrapped::new(copy(&net, &device), batch, devices, count)?;
        entrants.push((Box::new(wrapped), rows));
    }

    let mut rows = Vec::new();
    for (entrant, samples) in &mut entrants {
        let started = Instant::now();
        entrant.step()?;
        entrant.sync();
        let first_step = started.elapsed().as_secs_f64();
        // A second and third step, for what the first one leaves: optimizer states, allocations of the pool.
        for _ in 0..2 {
            entrant.step()?;
        }
        entrant.sync();
        rows.push(Row::new(
            entrant.name(),
            entrant.replicas(),
            *samples,
            first_step,
        ));
    }
    let before: Vec<_> = entrants
        .iter()
        .map(|(entrant, _)| entrant.stats())
        .collect();
    for _ in 0..options.rounds {
        for ((entrant, _), row) in entrants.iter_mut().zip(&mut rows) {
            let started = Instant::now();
            for _ in 0..options.steps {
                entrant.step()?;
            }
            entrant.sync();
            row.rounds
                .push(started.elapsed().as_secs_f64() * 1e3 / options.steps as f64);
        }
    }
    for (((entrant, _), row), before) in entrants.iter().zip(&mut rows).zip(before) {
        row.memory = memory(devices);
        if let (Some(before), Some(after)) = (before, entrant.stats()) {
            row.phases(&before, &after);
        }
    }
    Ok(rows)
}

/// Bytes that each device's allocator holds, where it tells: of all contenders of this process together.
fn memory(devices: &Devices) -> Vec<u64> {
    let pools = devices
        .all
        .iter()
        .map(burn::tensor::Device::memory_pool_usage);
    pools.flatten().map(|usage| usage.bytes_reserved).collect()
}
