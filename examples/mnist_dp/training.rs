//! The loop: that of any Burn program, around a wrapped model.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::AdamConfig;
use burn::tensor::{Device, ElementConversion, Tensor};
use burn_dp::{DataParallel, DataParallelConfig, Gather};

use crate::arguments::Arguments;
use crate::dataset::{Batch, Data, ImageBatcher, Sample};
use crate::devices::Chosen;
use crate::interrupt::Interrupt;
use crate::model::Net;
use crate::problem::{Problem, write_whole};
use crate::progress::Progress;
use crate::report::{Epoch, Report};
use crate::weights;

/// What a replica tells of its shard beside the loss.
#[derive(Gather)]
struct Score {
    #[gather(mean)]
    loss: Tensor<1>,
    #[gather(sum)]
    correct: Tensor<1>,
}

fn score(net: &Net, batch: Batch) -> Score {
    let logits = net.forward(batch.images);
    let correct = logits
        .clone()
        .argmax(1)
        .flatten::<1>(0, 1)
        .equal(batch.targets.clone())
        .float()
        .sum();
    let loss = CrossEntropyLossConfig::new()
        .init(&logits.device())
        .forward(logits, batch.targets);
    Score { loss, correct }
}

pub fn train(arguments: &Arguments, data: &Data, chosen: Chosen) -> Result<Report, Problem> {
    let device = chosen.device.autodiff();
    device.seed(arguments.seed);
    let net = Net::new(data.height, data.width, data.classes, &device);
    let mut config = DataParallelConfig::new();
    config.time_limit_seconds = arguments.time_limit;
    let mut model = config.init_on(net, chosen.ids)?;
    if let Some(file) = &arguments.load {
        model = load(model, file)?;
    }
    println!("{model}");

    let interrupt = Interrupt::listen()?;
    let mut optim = AdamConfig::new().init();
    let batches = loader(data, &data.train, arguments, &device, true);
    let test = loader(data, &data.test, arguments, &device.clone().inner(), false);
    let steps = data.train.len().div_ceil(arguments.batch_size as usize);
    let mut schedule =
        CosineAnnealingLrSchedulerConfig::new(arguments.lr, steps * arguments.epochs as usize)
            .init()
            .map_err(Problem::Usage)?;
    let progress = Progress::new(arguments.epochs, steps as u64);
    let started = Instant::now();
    let mut epochs = Vec::new();

    for epoch in 1..=arguments.epochs {
        progress.epoch(epoch);
        let epoch_started = Instant::now();
        let mut total = Total::default();
        for (done, batch) in batches.iter().enumerate() {
            if interrupt.requested() {
                progress.finish();
                return Err(stopped(epoch, done, model, arguments));
            }
            let batch = batch.map_err(unreadable)?;
            let rows = batch.targets.dims()[0];
            let ((loss, score), grads) = model.train_step(batch, |net: &Net, shard| {
                let score = score(net, shard);
                (score.loss.clone(), score)
            })?;
            model = optim.step(schedule.step(), model, grads);
            total.add(loss, score.correct, rows);
            progress.step();
        }
        let (train_loss, train_accuracy) = total.finish();
        let seconds = epoch_started.elapsed().as_secs_f64();
        let (test_loss, test_accuracy) = evaluate(&model, &test)?;
        let done = Epoch {
            epoch,
            train_loss,
            train_accuracy,
            test_loss,
            test_accuracy,
            seconds,
            steps_per_second: steps as f64 / seconds,
        };
        progress.epoch_done(&done);
        epochs.push(done);
    }
    progress.finish();
    let seconds = started.elapsed().as_secs_f64();
    let devices = model
        .replica_devices()
        .iter()
        .map(|device| format!("{:?}", device.clone().inner()))
        .collect();
    if let Some(file) = &arguments.save {
        save(model, file)?;
        println!("weights: {}", file.display());
    }
    Ok(Report {
        configuration: arguments.clone(),
        data: data.describe(),
        reason: chosen.reason,
        devices,
        seconds,
        test_accuracy: epochs.last().map_or(0.0, |epoch| epoch.test_accuracy),
        epochs,
    })
}

/// Save what there is, if that was asked for, and say where training stopped.
fn stopped(epoch: u32, steps: usize, model: DataParallel<Net>, arguments: &Arguments) -> Problem {
    let saved = match &arguments.save {
        None => "nothing was saved, since --save was not given".into(),
        Some(file) => match save(model, file) {
            Ok(()) => format!(
                "the weights are in {}, --load goes on from them",
                file.display()
            ),
            Err(problem) => return problem,
        },
    };
    Problem::Interrupted {
        epoch,
        steps,
        saved,
    }
}

fn evaluate(
    model: &DataParallel<Net>,
    batches: &Arc<dyn DataLoader<Batch>>,
) -> Result<(f64, f64), Problem> {
    let model = model.valid();
    let mut total = Total::default();
    for batch in batches.iter() {
        let batch = batch.map_err(unreadable)?;
        let rows = batch.targets.dims()[0];
        let score = model.forward(batch, score)?;
        total.add(score.loss, score.correct, rows);
    }
    Ok(total.finish())
}

fn unreadable(error: impl std::fmt::Display) -> Problem {
    Problem::Data(format!("a batch could not be read: {error}"))
}

/// Sums that stay on the device until the epoch ends, so that no step waits for a read.
#[derive(Default)]
struct Total {
    sums: Option<(Tensor<1>, Tensor<1>)>,
    rows: usize,
}

impl Total {
    fn add(&mut self, loss: Tensor<1>, correct: Tensor<1>, rows: usize) {
        let loss = loss.inner().mul_scalar(rows as f64);
        let correct = correct.inner();
        self.sums = Some(match self.sums.take() {
            Some((all_loss, all_correct)) => (all_loss + loss, all_correct + correct),
            None => (loss, correct),
        });
        self.rows += rows;
    }

    /// Mean loss and share of correct rows.
    fn finish(self) -> (f64, f64) {
        let rows = self.rows.max(1) as f64;
        self.sums.map_or((0.0, 0.0), |(loss, correct)| {
            let read = |sum: Tensor<1>| sum.into_scalar::<f32>().elem::<f64>() / rows;
            (read(loss), read(correct))
        })
    }
}

fn loader(
    data: &Data,
    samples: &[Sample],
    arguments: &Arguments,
    device: &Device,
    shuffle: bool,
) -> Arc<dyn DataLoader<Batch>> {
    let batcher = ImageBatcher {
        height: data.height,
        width: data.width,
    };
    let builder = DataLoaderBuilder::new(batcher)
        .batch_size(arguments.batch_size as usize)
        .set_device(device.clone());
    let builder = if shuffle {
        builder.shuffle(arguments.seed)
    } else {
        builder
    };
    builder.build(InMemDataset::new(samples.to_vec()))
}

// Bytes rather than `save_file`, which appends an ending of its own to a name that has none.

fn load(model: DataParallel<Net>, file: &Path) -> Result<DataParallel<Net>, Problem> {
    let bytes = std::fs::read(file)
        .map_err(|error| Problem::file(file, format!("{error}; name a file that --save wrote")))?;
    weights::from_bytes(model, bytes).map_err(|error| {
        let remedy = "name a file that --save wrote, for images of the same size";
        Problem::file(file, format!("{error}; {remedy}"))
    })
}

fn save(model: DataParallel<Net>, file: &Path) -> Result<(), Problem> {
    write_whole(file, |partial| {
        let bytes = weights::to_bytes(model)?;
        std::fs::write(partial, bytes).map_err(|error| error.to_string())
    })
}
