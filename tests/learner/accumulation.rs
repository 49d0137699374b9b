//! Gradient accumulation, with a last group that is short: three batches an epoch.

use burn::lr_scheduler::exponential::ExponentialLrSchedulerConfig;

use crate::launch::{Training, WAYS, Way};
use crate::models::{Net, device, items, loader};

#[test]
fn groups_of_every_size_equal_the_bare_ones() {
    for accumulation in [1, 2, 3, 4] {
        let training = || Training {
            accumulation: Some(accumulation),
            scheduler: ExponentialLrSchedulerConfig::new(0.1, 0.8).init().unwrap(),
            ..Training::default()
        };
        let bare = training().run(Net::new(&device(), 1), Way::Bare);
        for way in WAYS {
            let outcome = training().run(Net::new(&device(), 1), way);
            outcome.assert_close(&format!("groups of {accumulation}, {way:?}"), &bare);
        }
    }
}

#[test]
fn seven_batches_in_groups_of_three() {
    let training = || Training {
        train: loader(items(20, 1), 3),
        accumulation: Some(3),
        ..Training::default()
    };
    let bare = training().run(Net::new(&device(), 1), Way::Bare);
    for way in WAYS {
        let outcome = training().run(Net::new(&device(), 1), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
    }
}
