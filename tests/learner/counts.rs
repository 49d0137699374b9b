//! Metrics and item counts where nothing divides: 11 items, batches of 5, shards of 3 and 2 rows and of 1 row.

use burn::train::Interrupter;

use crate::launch::{Training, WAYS, Way};
use crate::models::{Net, Normed, device, items, loader};

#[test]
fn metrics_counts_and_parameters_are_those_of_the_bare_model() {
    let bare = Training::default().run(Net::new(&device(), 1), Way::Bare);
    assert_eq!(bare.trace.count("train: 11 items"), 3);
    assert_eq!(bare.trace.count("11 items done"), 3);
    assert_eq!(bare.trace.count("valid: 7 items"), 3);
    assert_eq!(bare.trace.count("train Accuracy of 5"), 6);
    assert_eq!(bare.trace.count("train Accuracy of 1"), 3);
    for way in WAYS {
        let outcome = Training::default().run(Net::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
        assert!(outcome.error.is_none() && outcome.interrupted.is_none());
    }
}

#[test]
fn every_number_of_items_and_every_batch_size_counts_alike() {
    for count in [1, 2, 3, 8, 13] {
        for batch_size in [1, 2, 5, 20] {
            let training = Training {
                train: loader(items(count, 1), batch_size),
                valid: loader(items(count, 2), batch_size),
                epochs: 1,
                ..Training::default()
            };
            let bare = fresh(&training).run(Net::new(&device(), 1), Way::Bare);
            for way in [Way::Wrapped(3), Way::Strategy(3)] {
                let outcome = fresh(&training).run(Net::new(&device(), 1), way);
                outcome.assert_close(&format!("{count} items by {batch_size}, {way:?}"), &bare);
            }
        }
    }
}

#[test]
fn data_loaders_that_have_no_items_are_no_error() {
    let training = || Training {
        train: loader(items(5, 1), 5),
        valid: loader(Vec::new(), 3),
        epochs: 2,
        ..Training::default()
    };
    let bare = training().run(Net::new(&device(), 1), Way::Bare);
    for way in [Way::Wrapped(2), Way::Strategy(2)] {
        let outcome = training().run(Net::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
    }
}

#[test]
fn running_statistics_reach_validation_and_the_trained_model() {
    // One replica sees the whole batch, so that its statistics are the bare ones; those of two are of the primary's shard.
    let training = || Training {
        train: loader(items(10, 1), 5),
        ..Training::default()
    };
    let bare = training().run(Normed::new(&device(), 1), Way::Bare);
    for way in [Way::Wrapped(1), Way::Strategy(1)] {
        let outcome = training().run(Normed::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
    }
    let wrapped = training().run(Normed::new(&device(), 1), Way::Wrapped(2));
    let strategy = training().run(Normed::new(&device(), 1), Way::Strategy(2));
    strategy.assert_close("strategy against wrapper", &wrapped);
    let variance = &strategy.parameters["norm.running_var"];
    assert!(variance.iter().all(|variance| (variance - 1.0).abs() > 0.1));
}

/// The same training with a handle of its own for interruptions.
fn fresh<'a>(training: &Training<'a>) -> Training<'a> {
    Training {
        interrupter: Interrupter::new(),
        ..training.clone()
    }
}
