//! The loop: that of any Burn program, around a wrapped model.

use std::time::Instant;

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn_dp::{DataParallel, DataParallelConfig, DeviceIds, Loss, RandomOrder, Sum};

use crate::arguments::Arguments;
use crate::batch::{TOKENS, batch, encode};
use crate::grammar::{accepts, sentence};
use crate::model::Writer;
use crate::numbers::Numbers;
use crate::problem::Problem;
use crate::sample::sentences;

const TRAIN: usize = 2000;
const TEST: usize = 200;
const FEATURES: usize = 48;
const LAYERS: usize = 2;
const RATE: f64 = 0.01;

pub fn run(arguments: &Arguments) -> Result<(), Problem> {
    let mut numbers = Numbers::new(arguments.seed);
    let mut text = |count| -> Vec<Vec<i64>> {
        (0..count)
            .map(|_| encode(&sentence(&mut numbers)))
            .collect()
    };
    let (mut train, test) = (text(TRAIN), text(TEST));
    println!("data: {TRAIN} sentences, {} letters", letters(&train));

    let device = Device::flex().autodiff();
    device.seed(arguments.seed);
    let writer = Writer::new(FEATURES, LAYERS, &device);
    let ids = DeviceIds::repeat(0, usize::from(arguments.replicas));
    // The dropout layers have rate 0 and draw nothing, so the replicas' forwards need not take turns to repeat a run.
    let mut model = DataParallelConfig::new()
        .with_random_order(RandomOrder::Free)
        .init_on(writer, ids)?;
    println!("{model}");

    let mut optim = AdamConfig::new().init();
    let rows = arguments.batch_size as usize;
    let steps = train.len().div_ceil(rows) * usize::from(arguments.epochs);
    let mut schedule = CosineAnnealingLrSchedulerConfig::new(RATE, steps)
        .init()
        .map_err(Problem::Usage)?;
    for epoch in 1..=arguments.epochs {
        let started = Instant::now();
        numbers.shuffle(&mut train);
        let mut mean = Mean::default();
        for sentences in train.chunks(rows) {
            let (loss, grads) =
                model.train_step(batch(sentences, &device), |writer: &Writer, shard| {
                    let (mean, signs) = writer.loss(shard);
                    Loss::mean_over(mean, signs)
                })?;
            model = optim.step(schedule.step(), model, grads);
            let letters = letters(sentences);
            mean.add(loss.try_into_scalar::<f32>()? * letters as f32, letters);
        }
        println!(
            "epoch {epoch:>2}/{}: loss {:.4}, test loss {:.4}; {:.1} s",
            arguments.epochs,
            mean.finish(),
            test_loss(&model, &test, rows)?,
            started.elapsed().as_secs_f64(),
        );
    }

    let written = sentences(
        &model.valid(),
        usize::from(arguments.sentences),
        &mut numbers,
    )?;
    for sentence in &written {
        println!(
            "  {}{sentence}",
            if accepts(sentence) { "  " } else { "* " }
        );
    }
    let right = written.iter().filter(|sentence| accepts(sentence)).count();
    println!(
        "{right} of {} sentences follow the grammar (* does not)",
        written.len()
    );
    println!(
        "test loss: {:.4} a letter (without training: {:.4})",
        test_loss(&model, &test, rows)?,
        (TOKENS as f64).ln(),
    );
    Ok(())
}

/// The mean loss over all letters of `sentences`.
fn test_loss(
    model: &DataParallel<Writer>,
    sentences: &[Vec<i64>],
    rows: usize,
) -> Result<f64, Problem> {
    let model = model.valid();
    let mut mean = Mean::default();
    for sentences in sentences.chunks(rows) {
        let batch = batch(sentences, model.primary());
        let Sum(sum) = model.forward(batch, |writer: &Writer, shard| {
            let (mean, signs) = writer.loss(shard);
            Sum(mean.mul_scalar(signs))
        })?;
        mean.add(sum.try_into_scalar()?, letters(sentences));
    }
    Ok(mean.finish())
}

fn letters(sentences: &[Vec<i64>]) -> usize {
    sentences.iter().map(Vec::len).sum()
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, sum: f32, count: usize) {
        self.sum += f64::from(sum);
        self.count += count;
    }

    fn finish(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}
