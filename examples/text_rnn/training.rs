//! The loop: that of any Burn program, around a wrapped model.

use std::time::Instant;

use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DeviceIds, Loss};

use crate::arguments::Arguments;
use crate::batch::{Sample, WINDOW, window, windows};
use crate::lines::{CLASSES, Line, Numbers, lines, names};
use crate::model::Reader;
use crate::problem::Problem;

const TRAIN: usize = 2000;
const TEST: usize = 500;
const FEATURES: usize = 32;
const LAYERS: usize = 2;
const RATE: f64 = 0.01;

pub fn run(arguments: &Arguments) -> Result<(), Problem> {
    let mut numbers = Numbers::new(arguments.seed);
    let mut train = samples(&lines(TRAIN, false, &mut numbers));
    let test = samples(&lines(TEST, true, &mut numbers));
    println!(
        "data: {TRAIN} lines of {}; {TEST} test lines of other words",
        names().join(", ")
    );

    let device = Device::flex().autodiff();
    device.seed(arguments.seed);
    let reader = Reader::new(FEATURES, LAYERS, CLASSES, &device);
    let ids = DeviceIds::repeat(0, usize::from(arguments.replicas));
    let mut model = DataParallel::new(reader, ids)?;
    println!("{model}");
    let mut optim = AdamConfig::new().init();

    let mut right = 0.0;
    for epoch in 1..=arguments.epochs {
        let started = Instant::now();
        numbers.shuffle(&mut train);
        let (mut sum, mut steps) = (0.0, 0);
        for samples in train.chunks(arguments.batch_size as usize) {
            let mut state = model.module().start(samples.len(), &device);
            for index in 0..windows(samples) {
                let batch = window(samples, index, state, &device);
                let ((loss, output), grads) =
                    model.train_step(batch, |reader: &Reader, shard| {
                        let (mean, characters, output) = reader.loss(shard);
                        (Loss::mean_over(mean, characters), output)
                    })?;
                model = optim.step(RATE, model, grads);
                state = output.state;
                sum += f64::from(loss.try_into_scalar::<f32>()?);
                steps += 1;
            }
        }
        right = accuracy(&model.valid(), &test, arguments)?;
        println!(
            "epoch {epoch:>2}/{}: loss {:.4}, test accuracy {:.4}; {:.1} s",
            arguments.epochs,
            sum / f64::from(steps),
            right,
            started.elapsed().as_secs_f64(),
        );
    }
    println!("test accuracy: {right:.4}");
    Ok(())
}

fn samples(lines: &[Line]) -> Vec<Sample> {
    lines
        .iter()
        .map(|line| Sample::new(&line.text, line.language))
        .collect()
}

/// The share of lines whose language is guessed right after their last character.
fn accuracy(
    model: &DataParallel<Reader>,
    samples: &[Sample],
    arguments: &Arguments,
) -> Result<f64, Problem> {
    let device = model.primary();
    let mut right = 0;
    for samples in samples.chunks(arguments.batch_size as usize) {
        let mut state = model.module().start(samples.len(), device);
        for index in 0..windows(samples) {
            let batch = window(samples, index, state, device);
            let output = model.forward(batch, |reader: &Reader, shard| reader.forward(&shard))?;
            state = output.state;
            let guesses = best(output.guesses)?;
            // Lines that end in this window; a longer one is guessed in a later window.
            let ends = samples.iter().enumerate().filter_map(|(row, sample)| {
                let last = sample.characters.len() - 1;
                (last / WINDOW == index).then_some((row * WINDOW + last % WINDOW, sample.language))
            });
            right += ends
                .filter(|&(at, language)| guesses[at] == language as i64)
                .count();
        }
    }
    Ok(right as f64 / samples.len() as f64)
}

/// The likeliest language after each character, row by row.
fn best(guesses: Tensor<3>) -> Result<Vec<i64>, Problem> {
    Ok(guesses.argmax(2).try_into_data()?.iter::<i64>().collect())
}
