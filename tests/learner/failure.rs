//! What goes wrong in a training: a panic with the typed error's text under the `Learner` (burn-train has no other way), and
//! an error in the result under `DataParallelStrategy`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::data::dataloader::DataLoaderBuilder;
use burn::train::{InferenceStep, TrainStep};
use burn_dp::{DataParallel, DataParallelStrategy, DeviceIds};

use crate::compare::parameters;
use crate::launch::{Training, Way};
use crate::models::{Batch, Item, Net, ToBatch, Unreadable, device, items, loader, poisoned};

/// The message of the panic that `work` ends in.
pub fn panic_text<T>(work: impl FnOnce() -> T) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(_) => panic!("a panic was expected"),
        Err(panic) => panic,
    };
    panic
        .downcast_ref::<String>()
        .expect("the panic has a text")
        .clone()
}

/// Eleven items; the one at `index` makes its replica panic.
fn with_poison(index: usize) -> Vec<Item> {
    let mut items = items(11, 1);
    items[index] = poisoned();
    items
}

const CAUSE: &str = "failed in apply: the input is not a number";

#[test]
fn a_replica_that_fails_is_a_panic_that_names_it() {
    // Row 9 is row 4 of the second batch: the last replica's, of two (3, 2 rows) and of three (2, 2, 1).
    for (replicas, expected) in [(2, 1), (3, 2)] {
        let training = Training {
            train: loader(with_poison(9), 5),
            ..Training::default()
        };
        let text = panic_text(|| training.run(Net::new(&device(), 1), Way::Wrapped(replicas)));
        assert!(
            text.starts_with(&format!("replica {expected} on Flex")),
            "{text}"
        );
        assert!(text.ends_with(CAUSE), "{text}");
    }
}

#[test]
fn the_wrapper_works_on_after_a_panic() {
    let net = Net::new(&device(), 1);
    let model = DataParallel::new(net.clone(), DeviceIds::repeat(0, 2)).unwrap();
    let before = parameters(&model);
    let batch = |items: Vec<Item>| -> Batch {
        use burn::data::dataloader::batcher::Batcher;
        ToBatch.batch(items, &device())
    };
    for _ in 0..3 {
        panic_text(|| TrainStep::step(&model, batch(with_poison(10))));
        panic_text(|| InferenceStep::step(&model, batch(with_poison(10))));
    }
    assert_eq!(parameters(&model), before);
    let found = TrainStep::step(&model, batch(items(11, 1))).item;
    let expected = TrainStep::step(&net, batch(items(11, 1))).item;
    let [found, expected] = [found, expected].map(|output| output.loss.into_scalar::<f32>());
    assert!((found - expected).abs() < 1e-6);
}

#[test]
fn under_the_strategy_a_failing_replica_is_an_error_of_the_result() {
    // The training as far as it came: one batch, of five items.
    let until = Training {
        train: loader(items(5, 1), 5),
        epochs: 1,
        ..Training::default()
    };
    let until = until.run(Net::new(&device(), 1), Way::Bare);
    let training = Training {
        train: loader(with_poison(9), 5),
        ..Training::default()
    };
    let outcome = training.run(Net::new(&device(), 1), Way::Strategy(2));
    let error = outcome.error.expect("there was an error").to_string();
    assert!(
        error.starts_with("training worker on device 1 failed: replica 1 on Flex"),
        "{error}"
    );
    assert!(error.ends_with(CAUSE), "{error}");
    assert!(outcome.interrupted.is_none());
    // Nothing of the failed step is in the model, and no epoch or validation followed it.
    crate::compare::assert_close("model", &outcome.parameters, &until.parameters, 1e-6);
    assert_eq!(outcome.trace.count("train: 11 items"), 1);
    assert_eq!(outcome.trace.count("valid: 7 items"), 0);
    assert_eq!(outcome.trace.count("done"), 1);
}

#[test]
fn a_failure_in_validation_is_an_error_of_the_result_too() {
    let training = || Training {
        valid: loader(with_poison(9), 5),
        ..Training::default()
    };
    let text = panic_text(|| training().run(Net::new(&device(), 1), Way::Wrapped(2)));
    assert!(
        text.starts_with("replica 1 on Flex") && text.ends_with(CAUSE),
        "{text}"
    );
    let outcome = training().run(Net::new(&device(), 1), Way::Strategy(2));
    let error = outcome.error.expect("there was an error").to_string();
    assert!(error.ends_with(CAUSE), "{error}");
    assert_eq!(outcome.trace.count("valid: 11 items"), 1);
}

#[test]
fn ids_that_do_not_fit_are_an_error_of_the_result() {
    let net = Net::new(&device(), 1);
    let before = parameters(&net);
    for (ids, expected) in [
        (DeviceIds::from([0, 7]), "7"),
        (DeviceIds::from([0, 0]), "stands at positions 0 and 1"),
        (
            DeviceIds::from(Vec::<usize>::new()),
            "the list of device ids is empty",
        ),
        (DeviceIds::repeat(0, 0), "0 replicas were asked for"),
    ] {
        let strategy = DataParallelStrategy::new(ids);
        let (outcome, _) = Training::default().launch(net.clone(), Some(strategy.into()));
        let error = outcome.error.expect("there was an error").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(outcome.parameters, before);
        assert_eq!(outcome.trace.count("train: 11 items"), 0);
        assert_eq!(outcome.trace.count("done"), 1);
    }
}

#[test]
fn a_wrapped_model_under_the_strategy_is_told_of_the_nesting() {
    let model = DataParallel::new(Net::new(&device(), 1), DeviceIds::repeat(0, 2)).unwrap();
    let strategy = DataParallelStrategy::new(DeviceIds::repeat(0, 2));
    let (outcome, _) = Training::default().launch(model, Some(strategy.into()));
    let error = outcome.error.expect("there was an error").to_string();
    assert!(
        error.contains("was called from inside a replica's closure"),
        "{error}"
    );
}

#[test]
fn an_item_that_cannot_be_read_ends_the_training_as_on_the_bare_model() {
    let training = |in_validation: bool| {
        let unreadable = DataLoaderBuilder::new(ToBatch)
            .batch_size(5)
            .build(Unreadable {
                items: items(11, 1),
                index: 7,
            });
        let mut training = Training::default();
        if in_validation {
            training.valid = unreadable;
        } else {
            training.train = unreadable;
        }
        training
    };
    for in_validation in [false, true] {
        let bare = training(in_validation).run(Net::new(&device(), 1), Way::Bare);
        for way in [Way::Wrapped(2), Way::Strategy(2)] {
            let outcome = training(in_validation).run(Net::new(&device(), 1), way);
            outcome.assert_close(&format!("{way:?}"), &bare);
            let error = outcome.error.expect("there was an error").to_string();
            assert!(error.contains("the file is gone"), "{error}");
        }
    }
}
