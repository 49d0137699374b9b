//! An observer hears of every step that succeeds, of clones and validation too, and may use the wrapper.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DataParallelError, DeviceIds};

use crate::failure::quiet;
use crate::models::{Mlp, device, tensor};

#[test]
fn observers_hear_of_steps_that_succeed() {
    quiet();
    let (steps, apply) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (steps_seen, apply_seen) = (steps.clone(), apply.clone());
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2))
        .expect("it wraps")
        .on_step(move |stats| {
            steps_seen.fetch_add(stats.steps, Ordering::Relaxed);
            apply_seen.fetch_add(stats.apply.nanoseconds, Ordering::Relaxed);
        });
    let x = || tensor([4, 3], 1, &device());
    let step = |net: &Mlp, x| net.forward(x).mean();
    model.train_step(x(), step).expect("it works");
    model.clone().train_step(x(), step).expect("it works");
    let forward = |net: &Mlp, x| net.forward(x);
    model.forward(x(), forward).expect("it works");
    model
        .valid()
        .forward(x().inner(), forward)
        .expect("it works");
    let fails = |_: &Mlp, _: Tensor<2>| -> Tensor<1> { panic!("fails on purpose") };
    model.train_step(x(), fails).expect_err("it fails");
    assert_eq!(steps.load(Ordering::Relaxed), 4);
    assert_eq!(
        apply.load(Ordering::Relaxed),
        model.total_stats().apply.nanoseconds
    );
}

#[test]
fn an_observer_may_ask_the_wrapper() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (own, told) = (model.clone(), seen.clone());
    let model = model.on_step(move |stats| {
        assert_eq!(own.step_stats(), *stats);
        told.lock()
            .expect("nobody panics with it")
            .push(own.total_stats().steps);
    });
    for _ in 0..3 {
        let step = |net: &Mlp, x| net.forward(x).mean();
        model
            .train_step(tensor([4, 3], 1, &device()), step)
            .expect("it works");
    }
    assert_eq!(*seen.lock().expect("as above"), [1, 2, 3]);
}

#[test]
fn an_observer_that_steps_or_panics_does_no_harm() {
    quiet();
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let refused = Arc::new(AtomicU64::new(0));
    let (own, count) = (model.clone(), refused.clone());
    let step = |net: &Mlp, x| net.forward(x).mean();
    let model = model.on_step(move |_| {
        let error = own.train_step(tensor([4, 3], 1, &device()), step);
        let error = error.expect_err("it would wait for itself");
        if matches!(error, DataParallelError::Nested { .. }) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        panic!("the observer fails on purpose");
    });
    for _ in 0..2 {
        model
            .train_step(tensor([4, 3], 1, &device()), step)
            .expect("it works");
    }
    assert_eq!(refused.load(Ordering::Relaxed), 2);
}
