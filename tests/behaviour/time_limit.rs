//! A step that does not end within the time limit is given up: the error says who is where, and what the step does later is
//! undone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::Tensor;
use burn_dp::faults::{self, Fault};
use burn_dp::{DataParallelConfig, DataParallelError, DeviceIds, Phase, ReplicatedOptimizer};

use crate::compare::{assert_close, bits, gradients, parameters, values};
use crate::failure::{quiet, within};
use crate::models::{Mlp, Normed, device, tensor};

const LIMIT: Duration = Duration::from_millis(300);

/// Blocks once, when this replica enters this phase, until the sender of the channel is dropped.
#[derive(Clone, Default)]
struct Blocked(Arc<Mutex<Option<Block>>>);

type Block = (usize, Phase, Receiver<()>);

impl Blocked {
    /// Block there; the result ends the block when it is dropped.
    fn at(&self, replica: usize, phase: Phase) -> Sender<()> {
        let (end, wait) = channel();
        *self.0.lock().expect("nobody panics with it") = Some((replica, phase, wait));
        end
    }
}

impl Fault for Blocked {
    fn enter(&self, replica: usize, phase: Phase) {
        let mut next = self.0.lock().expect("nobody panics with it");
        if matches!(&*next, Some((r, p, _)) if (*r, *p) == (replica, phase)) {
            let wait = next.take();
            drop(next);
            let _ = wait.map(|(_, _, wait)| wait.recv());
        }
    }
}

fn config(limit: Duration) -> DataParallelConfig {
    DataParallelConfig::new().with_time_limit(limit)
}

fn step(replica: &Normed, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

#[track_caller]
fn assert_timed_out(error: &DataParallelError, index: usize, phase: Phase) {
    match error {
        DataParallelError::TimedOut { limit, waiting } => {
            assert_eq!(*limit, LIMIT);
            let found = waiting
                .iter()
                .any(|waiting| (waiting.replica, waiting.phase) == (index, phase));
            assert!(found, "replica {index} in {phase}: {error}");
        }
        other => panic!("another error: {other}"),
    }
}

#[test]
fn a_replica_that_never_answers_is_named_with_its_phase_and_the_late_step_is_undone() {
    within(120, || {
        let device = device();
        let x = || tensor([7, 3], 5, &device);
        for (index, phase) in [
            (0, Phase::Apply),
            (2, Phase::Apply),
            (1, Phase::Backward),
            (1, Phase::Broadcast),
            (0, Phase::Scatter),
            (1, Phase::Reduce),
            (0, Phase::Gather),
        ] {
            let fault = Blocked::default();
            let wrap = || config(LIMIT).init_on(Normed::new(&device), DeviceIds::repeat(0, 3));
            let model = faults::with(fault.clone(), wrap).expect("it wraps");
            let twin = wrap().expect("it wraps");
            for model in [&model, &twin] {
                model.train_step(x(), step).expect("a first step works");
            }
            let before = bits(&parameters(&model.valid()));

            let block = fault.at(index, phase);
            let started = Instant::now();
            let error = model.train_step(x(), step).expect_err("no end");
            assert!(started.elapsed() < 10 * LIMIT, "{:?}", started.elapsed());
            assert_timed_out(&error, index, phase);

            // The next step cannot begin while that one is in the way, and says so.
            let error = model.train_step(x(), step).expect_err("still no end");
            assert_timed_out(&error, index, phase);

            drop(block);
            let (loss, grads) = model.train_step(x(), step).expect("the next step works");
            let (expected, expected_grads) = twin.train_step(x(), step).expect("so does this");
            assert_eq!(values(&loss), values(&expected), "{index} {phase}");
            assert_eq!(
                bits(&gradients(&model, &grads)),
                bits(&gradients(&twin, &expected_grads))
            );
            // Only one step's statistics have been added since.
            assert_ne!(bits(&parameters(&model.valid())), before);
            assert_eq!(
                bits(&parameters(&model.valid())),
                bits(&parameters(&twin.valid())),
                "{index} {phase}"
            );
        }
    });
}

#[test]
fn a_wrapper_whose_step_is_stuck_can_be_dropped() {
    within(60, || {
        let device = device();
        let fault = Blocked::default();
        let wrap = || config(LIMIT).init_on(Normed::new(&device), DeviceIds::repeat(0, 2));
        let model = faults::with(fault.clone(), wrap).expect("it wraps");
        let block = fault.at(1, Phase::Apply);
        model
            .train_step(tensor([4, 3], 1, &device), step)
            .expect_err("no end");
        drop(model);
        drop(block);
    });
}

#[test]
fn with_a_limit_the_numbers_are_those_of_bare_burn() {
    let device = device();
    let x = || tensor([9, 3], 2, &device);
    let mut bare = Mlp::new(&device);
    let wrap = config(Duration::from_secs(60)).init_on(bare.clone(), DeviceIds::repeat(0, 4));
    let mut model = wrap.expect("it wraps");
    let (mut optim, mut bare_optim) = (SgdConfig::new().init(), SgdConfig::new().init());
    for _ in 0..3 {
        let loss = |net: &Mlp, x| net.forward(x).powf_scalar(2.0).mean();
        let grads = GradientsParams::from_grads(loss(&bare, x()).backward(), &bare);
        bare = bare_optim.step(0.1, bare, grads);
        let (_, grads) = model.train_step(x(), loss).expect("it works");
        model = optim.step(0.1, model, grads);
        // `forward` is part of one graph, whatever thread it ran on.
        let output = model.forward(x(), |net: &Mlp, x| net.forward(x));
        let grads = output.expect("it works").mean().backward();
        assert_eq!(GradientsParams::from_grads(grads, &model).len(), 4);
    }
    assert_close("parameters", &parameters(&model), &parameters(&bare), 1e-5);
}

#[test]
fn panics_of_the_callers_own_code_reach_the_caller() {
    quiet();
    struct Odd;
    impl burn_dp::Scatter for Odd {
        fn inspect(&self, _inspector: &mut burn_dp::BatchInspector) {
            panic!("inspect fails on purpose");
        }
        fn into_shards(self, _shards: &burn_dp::Shards) -> Vec<Self> {
            Vec::new()
        }
        fn to_replica(self, _replica: usize, _shards: &burn_dp::Shards) -> Self {
            self
        }
    }
    let device = device();
    let model = config(LIMIT)
        .init_on(Mlp::new(&device), DeviceIds::repeat(0, 2))
        .expect("it wraps");
    let call = std::panic::AssertUnwindSafe(|| model.forward(Odd, |_: &Mlp, _: Odd| ()));
    let panic = std::panic::catch_unwind(call).expect_err("it panics");
    assert_eq!(panic.downcast_ref(), Some(&"inspect fails on purpose"));
    let forward = |net: &Mlp, x| net.forward(x);
    let next = model.forward(tensor([3, 3], 1, &device), forward);
    assert_eq!(next.expect("the next call works").dims()[0], 3);
}

#[test]
fn a_limit_must_be_a_time() {
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut config = DataParallelConfig::new();
        config.time_limit_seconds = Some(seconds);
        let error = config.init(Mlp::new(&device())).expect_err("it is refused");
        assert!(error.to_string().contains("time_limit_seconds"), "{error}");
    }
}

#[test]
fn the_longest_duration_is_a_limit() {
    let device = device();
    let model = config(Duration::MAX)
        .init_on(Mlp::new(&device), DeviceIds::repeat(0, 2))
        .expect("it is accepted");
    let step = |net: &Mlp, x: Tensor<2>| net.forward(x).mean();
    model
        .train_step(tensor([4, 3], 1, &device), step)
        .expect("it works");
}

/// The optimizer's step of a `ReplicatedOptimizer` is part of the step.
#[test]
fn an_optimizer_that_never_answers_is_given_up() {
    quiet();
    within(60, || {
        let device = device();
        let fault = Blocked::default();
        let wrap = || config(LIMIT).init_on(Normed::new(&device), DeviceIds::repeat(0, 3));
        let mut model = faults::with(fault.clone(), wrap).expect("it wraps");
        let mut twin = wrap().expect("it wraps");
        let sgd = || ReplicatedOptimizer::new(SgdConfig::new().init());
        let (mut optim, mut twin_optim) = (sgd(), sgd());
        let x = || tensor([7, 3], 1, &device);
        let block = fault.at(0, Phase::Optimizer);
        let error = optim
            .train_step(0.1, &mut model, x(), step)
            .expect_err("it is stuck");
        assert_timed_out(&error, 0, Phase::Optimizer);
        // The late step ends, and is undone, before the next one begins.
        drop(block);
        for _ in 0..2 {
            optim
                .train_step(0.1, &mut model, x(), step)
                .expect("it works");
            twin_optim
                .train_step(0.1, &mut twin, x(), step)
                .expect("so does this");
            assert_eq!(
                bits(&parameters(&model.valid())),
                bits(&parameters(&twin.valid()))
            );
        }
    });
}
