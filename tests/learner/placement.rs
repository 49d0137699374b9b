//! Strategies of burn-train that move the model: the wrapper follows to the primary, and elsewhere the next step says so.

use burn::module::Module;
use burn::optim::SgdConfig;
use burn::tensor::Device;
use burn::train::{ExecutionStrategy, Learner, MultiDeviceOptim};
use burn_dp::{DataParallel, DataParallelStrategy, DeviceIds};

use crate::compare::{assert_close, parameters};
use crate::failure::panic_text;
use crate::launch::{Training, Way};
use crate::models::{Batch, Small, ToBatch, items, loader};
use crate::remote::devices;

fn training(rows: usize) -> Training<'static> {
    Training {
        train: loader(items(rows, 1), rows),
        valid: loader(items(2, 2), 2),
        epochs: 2,
        optim: SgdConfig::new().init(),
        ..Training::default()
    }
}

fn wrapped(ids: &[Device]) -> DataParallel<Small> {
    let model = Small::new(&ids[0].clone().autodiff());
    DataParallel::new(model, DeviceIds::devices(ids.to_vec())).unwrap()
}

fn batch(rows: usize, device: &Device) -> Batch {
    use burn::data::dataloader::batcher::Batcher;
    ToBatch.batch(items(rows, 1), device)
}

#[test]
fn on_the_primary_it_trains_as_the_bare_model() {
    let [a, b] = devices();
    let bare = training(3).run(Small::new(&crate::models::device()), Way::Bare);
    for (ids, what) in [
        ([a.clone(), b.clone()], "first device first"),
        ([b.clone(), a.clone()], "second device first"),
    ] {
        let strategy = ExecutionStrategy::SingleDevice(ids[0].clone());
        let (outcome, model) = training(3).launch(wrapped(&ids), Some(strategy.into()));
        outcome.assert_close(what, &bare);
        assert_eq!(model.into_inner().devices(), [ids[0].clone()]);
    }
}

#[test]
fn by_the_strategy_it_trains_as_the_bare_model_from_wherever_it_was() {
    let [a, b] = devices();
    let bare = training(3).run(Small::new(&crate::models::device()), Way::Bare);
    let strategy = DataParallelStrategy::new(DeviceIds::devices([b.clone(), a.clone()]));
    let (outcome, model) = training(3).launch(Small::new(&a.autodiff()), Some(strategy.into()));
    outcome.assert_close("from another device", &bare);
    assert_eq!(model.devices(), [b]);
}

#[test]
fn on_a_device_that_is_not_the_primary_the_first_step_says_so() {
    let [a, b] = devices();
    // One row too: then one replica alone runs.
    for rows in [3, 1] {
        for ids in [vec![a.clone(), b.clone()], vec![a.clone()]] {
            let what = format!("{rows} rows, {} replicas", ids.len());
            let strategy = ExecutionStrategy::SingleDevice(b.clone());
            let text = panic_text(|| {
                let _ = training(rows).launch(wrapped(&ids), Some(strategy.into()));
            });
            assert!(
                text.starts_with("parameter `only.weight` is on "),
                "{what}: {text}"
            );
            assert!(text.contains("but the primary is"), "{what}: {text}");
        }
    }
}

#[test]
fn several_devices_of_burn_train_on_top_are_an_error_of_the_result() {
    let [a, b] = devices();
    let ids = [a, b];
    let strategy = ExecutionStrategy::MultiDevice(ids.to_vec(), MultiDeviceOptim::OptimMainDevice);
    let (outcome, _) = training(4).launch(wrapped(&ids), Some(strategy.into()));
    let error = outcome.error.expect("there was an error").to_string();
    assert!(error.contains("parameter `only.weight` is on "), "{error}");
}

#[test]
fn a_learner_that_is_moved_away_and_back_trains_on() {
    let [a, b] = devices();
    let (a, b) = (a.autodiff(), b.autodiff());
    let step = |moves: &[&Device]| {
        let model = wrapped(&[a.clone(), b.clone()]);
        let mut learner = Learner::new(model, SgdConfig::new().init(), 0.1);
        learner.lr_step();
        for device in moves {
            learner.fork(device);
        }
        let output = learner.train_step(batch(3, &a));
        learner.optimizer_step(output.grads);
        parameters(&learner.model())
    };
    let still = step(&[]);
    assert_close("moved", &step(&[&b, &a]), &still, 0.0);
    let text = panic_text(|| step(&[&b]));
    assert!(text.contains("but the primary is"), "{text}");
}
