//! Checkpoints: resumed on another number of replicas, or by another way, a training ends as if it had not stopped.

use std::path::Path;

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrSchedulerConfig;
use burn::module::ParamGroup;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, AdamWConfig, ModuleOptimizer, SgdConfig};

use crate::compare::{assert_close, differ};
use crate::launch::{Outcome, Training, Way};
use crate::models::{Net, Normed, device};

fn sgd_momentum() -> SgdConfig {
    SgdConfig::new().with_momentum(Some(MomentumConfig::new()))
}

fn optimizers() -> Vec<(&'static str, ModuleOptimizer)> {
    vec![
        ("Adam", AdamConfig::new().init()),
        ("AdamW", AdamWConfig::new().with_weight_decay(0.1).init()),
        ("SGD with momentum", sgd_momentum().init()),
        (
            "groups",
            AdamConfig::new().init().with_group(
                ParamGroup::from_predicate("last"),
                sgd_momentum().build(),
                None,
            ),
        ),
    ]
}

fn training(optim: &ModuleOptimizer) -> Training<'static> {
    let fast = ExponentialLrSchedulerConfig::new(0.1, 0.8);
    let slow = CosineAnnealingLrSchedulerConfig::new(0.05, 12);
    Training {
        epochs: 4,
        optim: optim.clone(),
        scheduler: ModuleLrSchedulerConfig::new(fast.into())
            .with_group(ParamGroup::from_predicate("last"), slow)
            .init()
            .unwrap(),
        ..Training::default()
    }
}

/// Two epochs, then two more from the checkpoint by a learner whose model starts elsewhere.
fn broken(optim: &ModuleOptimizer, first: Way, second: Way, directory: &Path) -> Outcome {
    let before = Training {
        epochs: 2,
        checkpoints: Some(directory),
        ..training(optim)
    };
    before.run(Net::new(&device(), 1), first);
    let after = Training {
        resume: Some(2),
        checkpoints: Some(directory),
        ..training(optim)
    };
    after.run(Net::new(&device(), 50), second)
}

#[test]
fn resumed_on_any_number_of_replicas_it_equals_the_unbroken_run() {
    let ways = [
        (Way::Wrapped(1), Way::Wrapped(3)),
        (Way::Wrapped(3), Way::Wrapped(2)),
        (Way::Wrapped(2), Way::Bare),
        (Way::Bare, Way::Wrapped(2)),
        (Way::Strategy(2), Way::Strategy(3)),
        (Way::Strategy(3), Way::Wrapped(2)),
        (Way::Wrapped(2), Way::Strategy(2)),
        (Way::Bare, Way::Strategy(2)),
    ];
    for (name, optim) in optimizers() {
        let unbroken = training(&optim).run(Net::new(&device(), 1), Way::Bare);
        let half = Training {
            epochs: 2,
            ..training(&optim)
        }
        .run(Net::new(&device(), 1), Way::Bare);
        assert!(differ(&half.parameters, &unbroken.parameters, 1e-3));
        let rates = unbroken.trace.of("train Learning Rate");
        for (first, second) in ways {
            let what = format!("{name}, {first:?} then {second:?}");
            let directory = tempfile::tempdir().unwrap();
            let resumed = broken(&optim, first, second, directory.path());
            assert_close(&what, &resumed.parameters, &unbroken.parameters, 5e-6);
            // Three steps and their mean, for each of the epochs 3 and 4.
            assert_eq!(
                resumed.trace.of("train Learning Rate"),
                rates[8..],
                "{what}"
            );
        }
    }
}

#[test]
fn a_restart_that_forgets_the_optimizer_is_found() {
    for (name, optim) in optimizers() {
        let directory = tempfile::tempdir().unwrap();
        let unbroken = training(&optim).run(Net::new(&device(), 1), Way::Bare);
        let before = Training {
            epochs: 2,
            checkpoints: Some(directory.path()),
            ..training(&optim)
        };
        before.run(Net::new(&device(), 1), Way::Wrapped(2));
        let empty = ModuleOptimizer::from(SgdConfig::new().build()).to_record();
        let path = directory.path().join("checkpoint/optim-2.bpk");
        empty.save(path).unwrap();
        let after = Training {
            resume: Some(2),
            checkpoints: Some(directory.path()),
            ..training(&optim)
        };
        let resumed = after.run(Net::new(&device(), 50), Way::Wrapped(2));
        assert!(
            differ(&resumed.parameters, &unbroken.parameters, 1e-4),
            "{name}: the comparison above would not notice a lost optimizer state"
        );
    }
}

#[test]
fn resumed_on_as_many_replicas_it_is_equal_bit_for_bit() {
    for (name, optim) in optimizers() {
        for way in [Way::Wrapped(2), Way::Strategy(3)] {
            let unbroken = training(&optim).run(Net::new(&device(), 1), way);
            let directory = tempfile::tempdir().unwrap();
            let resumed = broken(&optim, way, way, directory.path());
            assert_eq!(resumed.parameters, unbroken.parameters, "{name}, {way:?}");
        }
    }
}

#[test]
fn running_statistics_are_resumed() {
    let optim = AdamConfig::new().init();
    let unbroken = training(&optim).run(Normed::new(&device(), 1), Way::Wrapped(2));
    for way in [Way::Wrapped(2), Way::Strategy(2)] {
        let directory = tempfile::tempdir().unwrap();
        let before = Training {
            epochs: 2,
            checkpoints: Some(directory.path()),
            ..training(&optim)
        };
        before.run(Normed::new(&device(), 1), way);
        let after = Training {
            resume: Some(2),
            checkpoints: Some(directory.path()),
            ..training(&optim)
        };
        let resumed = after.run(Normed::new(&device(), 50), way);
        assert_close(
            &format!("{way:?}"),
            &resumed.parameters,
            &unbroken.parameters,
            5e-6,
        );
    }
}
