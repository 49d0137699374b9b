//! The same steps on the cluster and on one local device.

use std::time::Instant;

use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DeviceIds, PhaseStats, StepStats};

use crate::arguments::Arguments;
use crate::compare::largest_difference;
use crate::model::{Net, batch};
use crate::problem::Problem;

const RATE: f64 = 0.02;

pub fn run(arguments: &Arguments, devices: Vec<Device>) -> Result<(), Problem> {
    let local = Device::flex().autodiff();
    local.seed(arguments.seed);
    let mut alone = Net::new(&local);
    // The model moves to the first device of the list; its clone stays here.
    let mut model = DataParallel::new(alone.clone(), DeviceIds::devices(devices))?;

    let rows = usize::from(arguments.batch_size);
    let (mut optim, mut optim_alone) = (AdamConfig::new().init(), AdamConfig::new().init());
    for step in 0..usize::from(arguments.steps) {
        let started = Instant::now();
        // Made on the host: each shard goes straight to its replica's device.
        let (loss, grads) = model.train_step(
            batch(rows, step, &local),
            |net: &Net, (inputs, targets): (Tensor<2>, Tensor<2>)| net.loss(inputs, targets),
        )?;
        model = optim.step(RATE, model, grads);
        let loss: f32 = loss.try_into_scalar()?;
        let seconds = started.elapsed().as_secs_f64();

        let (inputs, targets) = batch(rows, step, &local);
        let expected = alone.loss(inputs, targets);
        let grads = GradientsParams::from_grads(expected.backward(), &alone);
        alone = optim_alone.step(RATE, alone, grads);
        let expected: f32 = expected.try_into_scalar()?;
        if step % 10 == 0 {
            println!(
                "step {:>3}: loss {loss:.6}, on one device {expected:.6}; {seconds:.3} s",
                step + 1
            );
        }
    }

    print_stats(&model.total_stats());
    println!(
        "largest difference to one device: {:e}",
        largest_difference(&model, &alone)?
    );
    Ok(())
}

fn print_stats(stats: &StepStats) {
    println!(
        "{:<10} {:>9} {:>7} {:>10}",
        "phase", "transfers", "bytes", "time"
    );
    let phases: [(&str, &PhaseStats); 6] = [
        ("broadcast", &stats.broadcast),
        ("scatter", &stats.scatter),
        ("apply", &stats.apply),
        ("reduce", &stats.reduce),
        ("gather", &stats.gather),
        ("optimizer", &stats.optimizer),
    ];
    for (name, phase) in phases {
        let milliseconds = phase.time().as_secs_f64() * 1e3;
        println!(
            "{name:<10} {:>9} {:>7} {milliseconds:>7.0} ms",
            phase.transfers, phase.bytes
        );
    }
    println!(
        "parameters and gradients, over {} steps: {} transfers, {} bytes",
        stats.steps,
        stats.transfers(),
        stats.bytes()
    );
}
