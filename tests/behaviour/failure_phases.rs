//! A fault in any phase, on any replica: the error names both, the model is as before, and the next step is right.

use burn::module::Module;
use burn_dp::faults::{self, Fault};
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Phase};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::compare::{bits, gradients, parameters, values};
use crate::failure::{quiet, within};
use crate::models::{Dropping, Normed, device, tensor};

/// Panics once, when this replica enters this phase.
#[derive(Clone, Default)]
struct Once(Arc<Mutex<Option<(usize, Phase)>>>);

impl Fault for Once {
    fn enter(&self, replica: usize, phase: Phase) {
        let mut next = self.0.lock().expect("no test panics while it holds this");
        if *next == Some((replica, phase)) {
            *next = None;
            drop(next);
            panic!("replica {replica} fails on purpose in {phase}");
        }
    }
}

const PHASES: [Phase; 6] = [
    Phase::Broadcast,
    Phase::Scatter,
    Phase::Apply,
    Phase::Backward,
    Phase::Reduce,
    Phase::Gather,
];

#[test]
fn every_phase_of_every_replica_fails_with_its_own_error_and_leaves_no_trace() {
    quiet();
    within(60, || {
        let device = device();
        for replicas in [1, 2, 5] {
            let fault = Once::default();
            let wrap = || DataParallel::new(Normed::new(&device), DeviceIds::repeat(0, replicas));
            let model = faults::with(fault.clone(), wrap).expect("it wraps");
            let x = || tensor([11, 3], 4, &device);
            let step = |replica: &Normed, x| replica.forward(x).powf_scalar(2.0).mean();
            let twin = DataParallel::new(Normed::new(&device), DeviceIds::repeat(0, replicas))
                .expect("it wraps");
            for phase in PHASES {
                for index in 0..replicas {
                    let before = bits(&parameters(&model.valid()));
                    *fault.0.lock().expect("as above") = Some((index, phase));
                    let error = model.train_step(x(), step).expect_err("it fails");
                    match &error {
                        DataParallelError::Replica {
                            replica,
                            phase: named,
                            cause,
                            ..
                        } => {
                            assert_eq!((*replica, *named), (index, phase), "{error}");
                            assert!(cause.contains("on purpose"), "{error}");
                        }
                        other => panic!("another error: {other}"),
                    }
                    assert_eq!(bits(&parameters(&model.valid())), before, "{index} {phase}");
                    let (loss, grads) = model.train_step(x(), step).expect("the next step works");
                    let (expected, expected_grads) =
                        twin.train_step(x(), step).expect("so does this");
                    assert_eq!(values(&loss), values(&expected), "{index} {phase}");
                    assert_eq!(
                        bits(&gradients(&model, &grads)),
                        bits(&gradients(&twin, &expected_grads))
                    );
                    assert_eq!(
                        bits(&parameters(&model.valid())),
                        bits(&parameters(&twin.valid()))
                    );
                }
            }
        }
    });
}

/// Where forwards take turns, a replica that fails before its turn must not keep the others waiting.
#[test]
fn a_replica_that_fails_before_its_turn_lets_the_others_go_on() {
    quiet();
    within(60, || {
        let device = device();
        let before_the_turn = [Phase::Broadcast, Phase::Scatter, Phase::Apply];
        for (index, phase) in (0..3).flat_map(|index| before_the_turn.map(|phase| (index, phase))) {
            let fault = Once::default();
            let arm = || *fault.0.lock().expect("as above") = Some((index, phase));
            let dropping = || DataParallel::new(Dropping::new(&device), DeviceIds::repeat(0, 3));
            let model = faults::with(fault.clone(), dropping).expect("it wraps");
            let x = || tensor([11, 3], 4, &device);
            let step = |replica: &Dropping, x| replica.forward(x).mean();
            arm();
            model.train_step(x(), step).expect_err("it fails");
            model.train_step(x(), step).expect("the next step works");
            let normed = || DataParallel::new(Normed::new(&device), DeviceIds::repeat(0, 3));
            let model = faults::with(fault.clone(), normed).expect("it wraps");
            let forward = |replica: &Normed, x| replica.forward(x);
            arm();
            model.forward(x(), forward).expect_err("it fails");
            model.forward(x(), forward).expect("the next call works");
        }
    });
}

#[test]
fn faults_are_of_the_wrapper_that_was_made_with_them_alone() {
    struct Seen(Arc<AtomicBool>);
    impl Fault for Seen {
        fn enter(&self, _replica: usize, _phase: Phase) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let seen = Arc::new(AtomicBool::new(false));
    let device = device();
    let wrap = || DataParallel::new(Normed::new(&device), DeviceIds::repeat(0, 2));
    let with = faults::with(Seen(seen.clone()), wrap).expect("it wraps");
    let without = wrap().expect("it wraps");
    let run = |model: &DataParallel<Normed>| {
        let forward = |replica: &Normed, x| replica.forward(x);
        model
            .forward(tensor([4, 3], 1, &device), forward)
            .expect("it works");
    };
    run(&without);
    assert!(!seen.load(Ordering::Relaxed));
    run(&with.clone());
    assert!(seen.load(Ordering::Relaxed));
}
