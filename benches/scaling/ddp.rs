//! burn-train's DistributedDataParallel on the same devices, through its Learner: it has no step that could be called alone.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::tensor::distributed::{DistributedConfig, ReduceOperation};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::{ExecutionStrategy, Learner, SupervisedTraining, TrainingStrategy};

use crate::contenders::copy;
use crate::models::{Batch, Kind, Net, Shape};
use crate::options::{Devices, Options, Scaling};
use crate::quiet::Quiet;
use crate::report::Row;

/// Time the training on the first `count` devices.
///
/// A training of few steps is taken from one of many, so that start-up and end do not count.
pub fn measure(
    options: &Options,
    devices: &Devices,
    kind: Kind,
    shape: &Shape,
    count: usize,
) -> Result<Row, Box<dyn Error>> {
    let devices: Vec<Device> = devices
        .take(count)
        .into_iter()
        .map(Device::autodiff)
        .collect();
    let rows = match options.scaling {
        Scaling::Strong => shape.batch / count,
        Scaling::Weak => shape.batch,
    };
    let net = Net::new(kind, shape, &devices[0]);
    let batch = Batch::random(kind, shape, rows, &devices[0]);
    let train = |steps: usize| {
        let loader = |items| {
            Arc::new(Repeated {
                batch: batch.clone(),
                items,
            })
        };
        let directory = tempfile::tempdir()?;
        let config = DistributedConfig {
            all_reduce_op: ReduceOperation::Mean,
        };
        let strategy = ExecutionStrategy::ddp(devices.clone(), config);
        let learner = Learner::new(copy(&net, &devices[0]), AdamConfig::new().init(), 1e-4);
        let started = Instant::now();
        let result = SupervisedTraining::new(directory.path(), loader(steps * count), loader(1))
            .with_training_strategy(TrainingStrategy::Default(strategy))
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .renderer(Box::new(Quiet))
            .num_epochs(1)
            .launch(learner);
        for device in &devices {
            device.sync()?;
        }
        match result.error {
            Some(error) => Err(error.to_string().into()),
            None => Ok::<f64, Box<dyn Error>>(started.elapsed().as_secs_f64()),
        }
    };
    let first = train(1)?;
    let mut row = Row::new("burn-train DDP".into(), count, rows * count, first);
    // Long enough for the difference to be more than the spread of a start.
    let (few, many) = (options.steps, 5 * options.steps);
    for _ in 0..options.rounds.min(5) {
        let (short, long) = (train(few)?, train(many)?);
        row.rounds.push((long - short) * 1e3 / (many - few) as f64);
    }
    Ok(row)
}

/// The same batch, `items` times.
struct Repeated {
    batch: Batch,
    items: usize,
}

impl DataLoader<Batch> for Repeated {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        Box::new(Batches {
            loader: self,
            given: 0,
        })
    }

    fn num_items(&self) -> usize {
        self.items
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        let rows = self.batch.targets.dims()[0];
        Arc::new(Self {
            batch: self.batch.rows(0, rows, device),
            items: self.items,
        })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self {
            batch: self.batch.clone(),
            items: end - start,
        })
    }
}

struct Batches<'a> {
    loader: &'a Repeated,
    given: usize,
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.given < self.loader.items).then(|| {
            self.given += 1;
            Ok(self.loader.batch.clone())
        })
    }
}

impl DataLoaderIterator<Batch> for Batches<'_> {
    fn progress(&self) -> Progress {
        Progress::new(self.given, self.loader.items, None)
    }
}
