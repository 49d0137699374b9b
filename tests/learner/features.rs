//! What the Learner has beside training: schedulers, early stopping, interruption, checkpointing of gradients, renderers.

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::lr_scheduler::noam::NoamLrSchedulerConfig;
use burn::optim::SgdConfig;
use burn::train::logger::FileMetricLogger;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{
    Interrupter, Learner, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
};
use burn_dp::{DataParallel, DataParallelConfig, DataParallelStrategy, DeviceIds};

use crate::failure::panic_text;
use crate::launch::{Training, WAYS, Way};
use crate::models::{Net, device, items, loader};

#[test]
fn a_scheduler_steps_once_an_optimizer_step() {
    let schedulers = [
        ExponentialLrSchedulerConfig::new(0.1, 0.8).init().unwrap(),
        CosineAnnealingLrSchedulerConfig::new(0.1, 9)
            .init()
            .unwrap(),
        NoamLrSchedulerConfig::new(0.5)
            .with_warmup_steps(4)
            .with_model_size(16)
            .init()
            .unwrap(),
    ];
    for (index, scheduler) in schedulers.into_iter().enumerate() {
        let training = || Training {
            scheduler: scheduler.clone(),
            ..Training::default()
        };
        let bare = training().run(Net::new(&device(), 1), Way::Bare);
        let rates = bare.trace.of("train Learning Rate");
        assert_eq!(rates.len(), 12, "nine steps and the mean of each epoch");
        assert!(rates.windows(2).any(|pair| pair[0] != pair[1]));
        for way in WAYS {
            let outcome = training().run(Net::new(&device(), 1), way);
            outcome.assert_close(&format!("scheduler {index}, {way:?}"), &bare);
            assert_eq!(outcome.trace.of("train Learning Rate"), rates);
        }
    }
}

#[test]
fn early_stopping_stops_at_the_same_epoch() {
    let training = || Training {
        epochs: 20,
        // The validation items are of other classes, so that their loss rises.
        early_stopping: Some(MetricEarlyStoppingStrategy::new(
            &LossMetric::new(),
            Aggregate::Mean,
            Direction::Lowest,
            Split::Valid,
            StoppingCondition::NoImprovementSince { n_epochs: 2 },
        )),
        ..Training::default()
    };
    let bare = training().run(Net::new(&device(), 1), Way::Bare);
    let epochs = bare.trace.count("valid: 7 items");
    assert!((2..20).contains(&epochs), "stopped after {epochs} epochs");
    for way in WAYS {
        let outcome = training().run(Net::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
    }
}

#[test]
fn an_interruption_ends_after_the_step_in_progress() {
    let training = || {
        let interrupter = Interrupter::new();
        interrupter.stop(Some("lunch"));
        Training {
            interrupter,
            ..Training::default()
        }
    };
    let bare = training().run(Net::new(&device(), 1), Way::Bare);
    assert_eq!(bare.trace.count("5 items done"), 1);
    for way in WAYS {
        let outcome = training().run(Net::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
        let interrupted = outcome.interrupted.expect("it was interrupted");
        assert_eq!(interrupted.reason.as_deref(), Some("lunch"));
    }
}

#[test]
fn a_model_that_checkpoints_gradients_gives_the_same_numbers() {
    let net = || Net::new(&device().gradient_checkpointing(), 1);
    let bare = Training::default().run(Net::new(&device(), 1), Way::Bare);
    for gradient_checkpointing in [false, true] {
        let training = || Training {
            gradient_checkpointing,
            ..Training::default()
        };
        training().run(net(), Way::Bare).assert_close("bare", &bare);
        for way in WAYS {
            let outcome = training().run(net(), way);
            outcome.assert_close(&format!("{way:?}, {gradient_checkpointing}"), &bare);
        }
    }
}

/// Batches are made on a device that checkpoints, but the model's parameters keep their setting when it is moved there. If
/// the bare training works one day, so must the wrapped one, and the strategy's documentation is to be looked at.
#[test]
fn gradient_checkpointing_of_the_training_alone_fails_in_burn_itself() {
    let training = || Training {
        gradient_checkpointing: true,
        ..Training::default()
    };
    for way in [Way::Bare, Way::Wrapped(1), Way::Wrapped(2)] {
        let text = panic_text(|| training().run(Net::new(&device(), 1), way));
        assert!(
            text.contains("Gradient checkpointing strategy mismatch"),
            "{way:?}: {text}"
        );
    }
    let bare = Training::default().run(Net::new(&device(), 1), Way::Bare);
    let outcome = training().run(Net::new(&device(), 1), Way::Strategy(2));
    outcome.assert_close("the strategy is not told", &bare);
}

#[test]
fn the_plain_renderer_the_file_logger_and_the_summary_work() {
    for strategy in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (train, valid) = (loader(items(11, 1), 5), loader(items(7, 2), 3));
        let renderer = Box::new(CliMetricsRenderer::new());
        let model = Net::new(&device(), 1);
        let ids = DeviceIds::repeat(0, 2);
        // The two have different types from here on.
        if strategy {
            let result = SupervisedTraining::new(directory.path(), train, valid)
                .with_training_strategy(DataParallelStrategy::new(ids).into())
                .metrics((LossMetric::new(), AccuracyMetric::new()))
                .with_metric_logger(FileMetricLogger::new(directory.path()))
                .with_application_logger(None)
                .renderer(renderer)
                .num_epochs(2)
                .summary()
                .launch(Learner::new(model, SgdConfig::new().init(), 0.1));
            assert!(result.error.is_none());
        } else {
            let model = DataParallel::new(model, ids).unwrap();
            let result = SupervisedTraining::new(directory.path(), train, valid)
                .metrics((LossMetric::new(), AccuracyMetric::new()))
                .with_metric_logger(FileMetricLogger::new(directory.path()))
                .with_application_logger(None)
                .renderer(renderer)
                .num_epochs(2)
                .summary()
                .launch(Learner::new(model, SgdConfig::new().init(), 0.1));
            assert!(result.error.is_none());
        }
        for split in ["train", "valid"] {
            let log = directory.path().join(split).join("epoch-2/Loss.log");
            // Burn's logging thread may still be writing when the training returns.
            let lines = || std::fs::read_to_string(&log).map_or(0, |log| log.lines().count());
            let written = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                lines() >= 3
            });
            assert!(written, "{} has {} lines", log.display(), lines());
        }
    }
}

#[test]
fn the_label_is_told() {
    let run = |way| {
        let directory = tempfile::tempdir().unwrap();
        let training = Training {
            files: Some(directory.path()),
            ..Training::default()
        };
        training.run(Net::new(&device(), 1), way)
    };
    // Burn reads the summary off log files that another of its threads may still be writing, so it is not always given, wrapped
    // or bare; the label is.
    for way in [Way::Bare, Way::Wrapped(2), Way::Strategy(2)] {
        let told = run(way)
            .trace
            .count("epochs 1 to 3, label Some(\"first try\")");
        assert_eq!(told, 1, "{way:?}");
    }
}

#[test]
fn a_strategy_takes_the_options_of_a_configuration() {
    let bare = Training::default().run(Net::new(&device(), 1), Way::Bare);
    let config = DataParallelConfig::new()
        .with_device_ids(vec![0, 0])
        .with_allow_repeated(true);
    for strategy in [
        DataParallelStrategy::from(config.clone()),
        DataParallelStrategy::new([0, 0, 0]).with_config(config),
    ] {
        let (outcome, _) =
            Training::default().launch(Net::new(&device(), 1), Some(strategy.into()));
        assert!(outcome.error.is_none());
        outcome.assert_close("by configuration", &bare);
    }
}
