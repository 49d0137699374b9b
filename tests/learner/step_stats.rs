//! `StepStats` as metrics of the Learner, for a wrapped model and for a strategy.

use burn::optim::SgdConfig;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::{Learner, SupervisedTraining};
use burn_dp::{DataParallel, DataParallelStrategy, DeviceIds, StepStatsMetric};

use crate::models::{Net, device, items, loader};
use crate::watch::Watch;

fn milliseconds(stats: &burn_dp::StepStats) -> f64 {
    stats.apply.time().as_secs_f64() * 1e3
}

fn steps(stats: &burn_dp::StepStats) -> f64 {
    stats.steps as f64
}

/// Three batches an epoch, and the epoch itself, each told with a positive time of one step.
fn check(watch: &Watch) {
    let trace = watch.trace();
    let times = trace.of("train Apply");
    assert_eq!(times.len(), 2 * (3 + 1), "{:?}", trace.values);
    assert!(times.iter().all(|&time| time > 0.0), "{times:?}");
    let steps = trace.of("train Steps");
    assert!(steps.iter().all(|&steps| steps == 1.0), "{steps:?}");
}

#[test]
fn a_wrapped_model_tells_of_its_phases() {
    let model =
        DataParallel::new(Net::new(&device(), 1), DeviceIds::repeat(0, 2)).expect("it wraps");
    let watch = Watch::default();
    let result = SupervisedTraining::new("unused", loader(items(11, 1), 5), loader(items(4, 2), 3))
        .metric_train_numeric(StepStatsMetric::new(&model, "Apply", "ms", milliseconds))
        .metric_train_numeric(StepStatsMetric::new(&model, "Steps", "", steps))
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .renderer(Box::new(watch.clone()))
        .num_epochs(2)
        .launch(Learner::new(model, SgdConfig::new().init(), 0.1));
    assert!(result.error.is_none());
    check(&watch);
}

#[test]
fn a_strategy_tells_of_the_wrapper_that_it_makes() {
    let strategy = DataParallelStrategy::new(DeviceIds::repeat(0, 3));
    let watch = Watch::default();
    let result = SupervisedTraining::new("unused", loader(items(11, 1), 5), loader(items(4, 2), 3))
        .metric_train_numeric(StepStatsMetric::of_strategy(
            &strategy,
            "Apply",
            "ms",
            milliseconds,
        ))
        .metric_train_numeric(StepStatsMetric::of_strategy(&strategy, "Steps", "", steps))
        .with_training_strategy(strategy.into())
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .renderer(Box::new(watch.clone()))
        .num_epochs(2)
        .launch(Learner::new(
            Net::new(&device(), 1),
            SgdConfig::new().init(),
            0.1,
        ));
    assert!(result.error.is_none());
    check(&watch);
}
