//! A regression trained by burn-train's `Learner` on several replicas: the one line for that is `DataParallel::new`.
//!
//! ```text
//! cargo run --features train --example learner_regression -- --replicas 2 --epochs 30
//! ```

mod arguments;
#[path = "../command_line/mod.rs"]
mod command_line;
mod data;
mod model;
mod problem;

use std::process::ExitCode;

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{LearningRateMetric, LossMetric};
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{InferenceStep, Learner, SupervisedTraining};
use burn_dp::{DataParallel, DeviceIds, StepStatsMetric};

use arguments::Arguments;
use data::{loader, points};
use model::Regressor;
use problem::Problem;

const TRAIN: usize = 1024;
const VALID: usize = 203;

fn main() -> ExitCode {
    command_line::run(|arguments: Arguments| run(&arguments), |_| 1)
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let epochs = usize::from(arguments.epochs);
    let (train, valid) = (points(TRAIN, 0), points(VALID, TRAIN));
    let steps = epochs * train.len().div_ceil(data::BATCH);

    let ids = DeviceIds::repeat(0, usize::from(arguments.replicas));
    let model = DataParallel::new(Regressor::new(&device), ids)?;
    println!("{model}");
    let apply = StepStatsMetric::new(&model, "Forward and backward", "ms", |stats| {
        stats.apply.time().as_secs_f64() * 1e3
    });

    let rate = CosineAnnealingLrSchedulerConfig::new(0.02, steps)
        .init()
        .map_err(Problem::Schedule)?;
    // What burn-train logs, for the table at the end.
    let logs = tempfile::tempdir().map_err(Problem::Logs)?;
    let result = SupervisedTraining::new(
        logs.path(),
        loader(train, Some(7)),
        loader(valid.clone(), None),
    )
    .metrics((LossMetric::new(),))
    .metric_train_numeric(LearningRateMetric::new())
    .metric_train_numeric(apply)
    .with_application_logger(None)
    .renderer(Box::new(CliMetricsRenderer::new()))
    .num_epochs(epochs)
    .summary()
    .launch(Learner::new(model, AdamConfig::new().init(), rate));
    if let Some(error) = result.error {
        return Err(Problem::Training(error));
    }

    let batch = data::batch(valid, &device.without_autodiff());
    let loss = InferenceStep::step(&result.model, batch).loss;
    println!(
        "final loss on {VALID} held-out points: {:.6} (replicas: {}, epochs: {epochs})",
        loss.try_into_scalar::<f32>()?,
        arguments.replicas,
    );
    Ok(())
}
