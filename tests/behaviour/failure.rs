//! A replica that fails gives a typed error; the model is as before and the next step works. Nothing hangs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Once};
use std::time::Duration;

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Loss, Phase};

use crate::compare::{bits, gradients, parameters, values};
use crate::equivalence::{RATE, adam, sgd};
use crate::models::{Dropping, Mlp, Normed, device, random_numbers, tensor};

const ON_PURPOSE: &str = "fails on purpose";

/// Keep panics that are part of a test out of the log; with backtraces on, printing them takes most of the time.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or_default();
            if !text.contains(ON_PURPOSE) {
                print(info);
            }
        }));
    });
}

/// Run `test` on a thread of its own, and fail if it takes longer than `seconds`.
pub fn within<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(test());
    });
    match result.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
            panic!("it hangs: no end after {seconds} s")
        }
        // The test itself failed: fail as it did.
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a test that ends sends its result"),
        },
    }
}

/// Which shard this is: rows hold their own number.
fn shard_of(x: &Tensor<2>) -> usize {
    x.clone().slice([0..1, 0..1]).into_scalar::<f32>() as usize
}

/// `[replicas, 3]`, row `i` being all `i`: one row a replica.
fn numbered(replicas: usize, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..replicas * 3).map(|i| (i / 3) as f32).collect();
    Tensor::from_data(burn::tensor::TensorData::new(values, [replicas, 3]), device)
}

fn wrapped(replicas: usize) -> DataParallel<Mlp> {
    quiet();
    DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

fn loss(replica: &Mlp, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

/// How a replica may fail.
#[derive(Clone, Copy, Debug)]
enum Way {
    Panic,
    /// A panic of Burn's own, out of an operation.
    Shapes,
    /// A panic with a payload that is no string.
    Payload,
}

fn fail(way: Way, x: &Tensor<2>) {
    match way {
        Way::Panic => panic!("shard {} {ON_PURPOSE}", shard_of(x)),
        Way::Shapes => {
            let _ = x.clone().matmul(x.clone());
        }
        Way::Payload => std::panic::resume_unwind(Box::new(7usize)),
    }
}

#[track_caller]
fn assert_names(error: &DataParallelError, index: usize, causes: &[&str]) {
    match error {
        DataParallelError::Replica {
            replica,
            device,
            phase,
            cause,
            ..
        } => {
            assert_eq!(*replica, index, "{error}");
            assert_eq!(*phase, Phase::Apply, "{error}");
            assert!(device.contains("Flex"), "{error}");
            for part in causes {
                assert!(cause.contains(part), "{part:?} is not in {cause:?}");
            }
        }
        other => panic!("another error: {other}"),
    }
    let text = error.to_string();
    assert!(text.contains(&format!("replica {index}")), "{text}");
    assert!(text.contains("Flex") && text.contains("apply"), "{text}");
}

#[test]
fn a_panic_on_any_replica_is_a_typed_error_in_forward_and_in_train_step() {
    within(30, || {
        for replicas in [1, 2, 4] {
            for index in 0..replicas {
                for way in [Way::Panic, Way::Shapes, Way::Payload] {
                    let model = wrapped(replicas);
                    let before = bits(&parameters(&model));
                    let x = numbered(replicas, &device());
                    let causes: &[&str] = match way {
                        Way::Panic => &[ON_PURPOSE],
                        Way::Shapes => &[],
                        Way::Payload => &[],
                    };
                    let error = model
                        .forward(x.clone(), move |replica: &Mlp, x| {
                            if shard_of(&x) == index {
                                // Wider than tall, so that it never multiplies with itself.
                                fail(way, &x);
                            }
                            replica.forward(x)
                        })
                        .expect_err("a replica failed");
                    assert_names(&error, index, causes);
                    let error = model
                        .train_step(x, move |replica: &Mlp, x| {
                            let loss = loss(replica, x.clone());
                            if shard_of(&x) == index {
                                fail(way, &x);
                            }
                            loss
                        })
                        .map(|_| ())
                        .expect_err("a replica failed");
                    assert_names(&error, index, causes);
                    assert_eq!(
                        before,
                        bits(&parameters(&model)),
                        "{way:?} on {index} of {replicas}"
                    );
                }
            }
        }
    });
}

/// The first of several failures is told, and the others do not spoil it.
#[test]
fn all_replicas_failing_gives_the_first() {
    let error = wrapped(4)
        .forward(
            numbered(4, &device()),
            |_: &Mlp, x: Tensor<2>| -> Tensor<2> { panic!("shard {} {ON_PURPOSE}", shard_of(&x)) },
        )
        .expect_err("all failed");
    assert_names(&error, 0, &["shard 0"]);
}

/// A step that returns early while others still run would let them write into the next one.
#[test]
fn the_error_comes_after_every_other_replica_has_ended() {
    let model = wrapped(4);
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    model
        .forward(numbered(4, &device()), move |replica: &Mlp, x| {
            let index = shard_of(&x);
            if index == 0 {
                panic!("{ON_PURPOSE}");
            }
            std::thread::sleep(Duration::from_millis(50 * index as u64));
            count.fetch_add(1, Ordering::SeqCst);
            replica.forward(x)
        })
        .expect_err("replica 0 failed");
    assert_eq!(ended.load(Ordering::SeqCst), 3);
}

#[derive(Debug, PartialEq)]
struct Refused(usize);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {} is refused", self.0)
    }
}

impl std::error::Error for Refused {}

#[test]
fn an_error_of_the_closure_is_kept_as_the_source() {
    let model = wrapped(3);
    let check = |error: DataParallelError| {
        assert_names(&error, 1, &["shard 1 is refused"]);
        let source = std::error::Error::source(&error).expect("there is a source");
        assert_eq!(source.downcast_ref::<Refused>(), Some(&Refused(1)));
    };
    let refuse = |x: &Tensor<2>| match shard_of(x) {
        1 => Err(Refused(1)),
        _ => Ok(()),
    };
    let error = model
        .try_forward(numbered(3, &device()), move |replica: &Mlp, x| {
            refuse(&x).map(|()| replica.forward(x))
        })
        .expect_err("shard 1 is refused");
    check(error);
    let error = model
        .train_step(numbered(3, &device()), move |replica: &Mlp, x| {
            refuse(&x).map(|()| loss(replica, x))
        })
        .map(|_| ())
        .expect_err("shard 1 is refused");
    check(error);
}

fn step(model: DataParallel<Mlp>, optim: &mut ModuleOptimizer, seed: usize) -> DataParallel<Mlp> {
    let (_, grads) = model
        .train_step(tensor([5, 3], seed, &device()), loss)
        .expect("the step works");
    optim.step(RATE, model, grads)
}

/// What a run with failures in between gives is what it gives without them, bit for bit.
#[test]
fn steps_after_failures_are_what_they_would_have_been() {
    for optim in [sgd, adam] {
        let start = wrapped(3);
        let (mut calm, mut calm_optim) = (start.clone(), optim());
        let (mut shaken, mut shaken_optim) = (start, optim());
        for seed in 0..4 {
            calm = step(calm, &mut calm_optim, seed);
            for index in 0..3 {
                shaken
                    .train_step(numbered(3, &device()), move |replica: &Mlp, x| {
                        let loss = loss(replica, x.clone());
                        assert_ne!(shard_of(&x), index, "{ON_PURPOSE}");
                        loss
                    })
                    .map(|_| ())
                    .expect_err("a replica failed");
            }
            shaken = step(shaken, &mut shaken_optim, seed);
        }
        assert_eq!(bits(&parameters(&calm)), bits(&parameters(&shaken)));
    }
}

#[test]
fn two_hundred_alternating_failures_neither_hang_nor_leak_into_the_numbers() {
    within(60, || {
        let model = wrapped(4);
        let x = numbered(4, &device());
        let good = |model: &DataParallel<Mlp>| {
            let (value, grads) = model.train_step(x.clone(), loss).expect("the step works");
            (values(&value), bits(&gradients(model, &grads)))
        };
        let first = good(&model);
        for round in 0..200 {
            let index = round % 4;
            model
                .train_step(x.clone(), move |replica: &Mlp, x| {
                    assert_ne!(shard_of(&x), index, "{ON_PURPOSE}");
                    loss(replica, x)
                })
                .map(|_| ())
                .expect_err("a replica failed");
            assert_eq!(first, good(&model), "after failure {round}");
        }
    });
}

/// Replicas that wait for their turn must not wait for one that has failed.
#[test]
fn a_failure_does_not_stop_replicas_that_take_turns() {
    within(30, || {
        quiet();
        let _random = random_numbers();
        let model =
            DataParallel::new(Dropping::new(&device()), DeviceIds::repeat(0, 4)).expect("it wraps");
        for round in 0..20 {
            let index = round % 4;
            let error = model
                .forward(numbered(4, &device()), move |replica: &Dropping, x| {
                    assert_ne!(shard_of(&x), index, "{ON_PURPOSE}");
                    replica.forward(x)
                })
                .expect_err("a replica failed");
            assert_names(&error, index, &[]);
            model
                .forward(numbered(4, &device()), |replica: &Dropping, x| {
                    replica.forward(x)
                })
                .expect("the next step works");
        }
    });
}

#[test]
fn a_call_from_inside_a_replica_is_an_error() {
    within(30, || {
        for replicas in [1, 3] {
            let model = wrapped(replicas);
            let inner = model.clone();
            let error = model
                .try_forward(numbered(replicas, &device()), move |_: &Mlp, x| {
                    inner.forward(x, |replica: &Mlp, x| replica.forward(x))
                })
                .expect_err("nested");
            let source = std::error::Error::source(&error).expect("there is a source");
            match source.downcast_ref::<DataParallelError>() {
                Some(DataParallelError::Nested { call }) => assert_eq!(*call, "forward"),
                other => panic!("another source: {other:?}"),
            }
            let inner = model.clone();
            let error = model
                .try_forward(
                    numbered(replicas, &device()),
                    move |_: &Mlp, x: Tensor<2>| inner.train_step(x.clone(), loss).map(|_| x),
                )
                .expect_err("nested");
            assert!(
                error
                    .to_string()
                    .contains("train_step was called from inside"),
                "{error}"
            );
            // The mark that a replica is running must be gone again.
            model
                .forward(numbered(replicas, &device()), |replica: &Mlp, x| {
                    replica.forward(x)
                })
                .expect("the next step works");
        }
    });
}

#[test]
fn a_loss_of_several_values_is_an_error() {
    for replicas in [1, 3] {
        let model = wrapped(replicas);
        let error = model
            .train_step(
                tensor([6, 3], 1, &device()),
                |replica: &Mlp, x| -> Tensor<1> { replica.forward(x).flatten(0, 1) },
            )
            .map(|_| ())
            .expect_err("not one value");
        match error {
            DataParallelError::LossShape { replica, elements } => {
                assert_eq!((replica, elements), (0, 12 / replicas));
            }
            other => panic!("another error: {other}"),
        }
    }
}

#[test]
fn a_loss_outside_the_graph_is_an_error() {
    quiet();
    let plain = Device::flex();
    for replicas in [1, 3] {
        let ids = DeviceIds::repeat(0, replicas);
        let model = DataParallel::new(Mlp::new(&device()).valid(), ids.clone()).expect("it wraps");
        let error = model
            .train_step(tensor([6, 3], 1, &plain), loss)
            .map(|_| ())
            .expect_err("nothing is tracked");
        assert!(
            matches!(error, DataParallelError::NotTrainable { replica: 0, .. }),
            "{error}"
        );
        // A closure that detaches, or that uses no parameter at all.
        let model = DataParallel::new(Mlp::new(&device()), ids).expect("it wraps");
        for detach in [true, false] {
            let error = model
                .train_step(tensor([6, 3], 1, &device()), move |replica: &Mlp, x| {
                    if detach {
                        loss(replica, x).detach()
                    } else {
                        x.mean()
                    }
                })
                .map(|_| ())
                .expect_err("nothing is tracked");
            assert!(
                matches!(error, DataParallelError::NotTrainable { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn sums_and_means_do_not_mix() {
    let model = wrapped(2);
    let error = model
        .train_step(numbered(2, &device()), |replica: &Mlp, x| {
            let first = shard_of(&x) == 0;
            let loss = loss(replica, x);
            if first {
                Loss::sum(loss)
            } else {
                Loss::mean(loss)
            }
        })
        .map(|_| ())
        .expect_err("a sum and a mean");
    assert!(
        matches!(error, DataParallelError::LossWeights { .. }),
        "{error}"
    );
}

fn normed(replicas: usize) -> DataParallel<Normed> {
    quiet();
    let model = DataParallel::new(Normed::new(&device()), DeviceIds::repeat(0, replicas))
        .expect("it wraps");
    // Statistics that are not the initial ones.
    model
        .train_step(tensor([8, 3], 9, &device()), |replica: &Normed, x| {
            replica.forward(x).powf_scalar(2.0).mean()
        })
        .expect("the step works");
    model
}

/// The primary's shard updates the statistics before another replica fails; the failed step must leave no trace.
#[test]
fn a_failed_step_leaves_running_statistics_as_they_were() {
    for replicas in [1, 3] {
        let model = normed(replicas);
        let before = model.module().statistics();
        let rows = replicas * 2;
        for index in 0..replicas {
            for train in [true, false] {
                let x = tensor([rows, 3], 4, &device());
                let calls = Arc::new(AtomicUsize::new(0));
                let run = move |replica: &Normed, x: Tensor<2>| {
                    let output = replica.forward(x.clone());
                    let first = crate::models::waves::wave(rows * 3, 4)[index * 6];
                    calls.fetch_add(1, Ordering::SeqCst);
                    assert_ne!(
                        x.slice([0..1, 0..1]).into_scalar::<f32>(),
                        first,
                        "{ON_PURPOSE}"
                    );
                    output
                };
                let error = if train {
                    let step = move |replica: &Normed, x: Tensor<2>| run(replica, x).mean();
                    model
                        .train_step(x, step)
                        .map(|_| ())
                        .expect_err("a replica failed")
                } else {
                    model
                        .forward(x, run)
                        .map(|_| ())
                        .expect_err("a replica failed")
                };
                assert_names(&error, index, &[]);
                assert_eq!(
                    before,
                    model.module().statistics(),
                    "replica {index} of {replicas} failed"
                );
            }
        }
    }
}

/// "After any of them the model is as it was": errors that come after the replicas have run are among them.
#[test]
fn an_error_after_the_replicas_have_run_leaves_running_statistics_as_they_were() {
    let model = normed(2);
    let before = model.module().statistics();
    let x = || tensor([6, 3], 4, &device());

    let error = model.forward(x(), |replica: &Normed, x| replica.forward(x).mean());
    assert!(matches!(error, Err(DataParallelError::ScalarOutput { .. })));
    assert_eq!(
        before,
        model.module().statistics(),
        "forward, outputs that do not gather"
    );

    let error = model.train_step(x(), |replica: &Normed, x| {
        let output = replica.forward(x);
        (output.clone().mean(), output.mean())
    });
    assert!(matches!(error, Err(DataParallelError::ScalarOutput { .. })));
    assert_eq!(
        before,
        model.module().statistics(),
        "train_step, outputs that do not gather"
    );

    let error = model.train_step(x(), |replica: &Normed, x| {
        Loss::mean_over(replica.forward(x).mean(), 0.0)
    });
    assert!(matches!(error, Err(DataParallelError::LossWeights { .. })));
    assert_eq!(
        before,
        model.module().statistics(),
        "train_step, weights of 0"
    );
}

/// A batch or an output type of the user's may panic too.
#[test]
fn a_panic_while_scattering_or_gathering_is_a_typed_error() {
    use burn_dp::{BatchInspector, Gather, GatherPlan, Scatter, Shards};

    struct Bad;
    impl Scatter for Bad {
        fn inspect(&self, inspector: &mut BatchInspector) {
            inspector.rows(4);
        }
        fn into_shards(self, _shards: &Shards) -> Vec<Self> {
            panic!("{ON_PURPOSE}")
        }
        fn to_replica(self, _replica: usize, _shards: &Shards) -> Self {
            panic!("{ON_PURPOSE}")
        }
    }
    impl Gather for Bad {
        fn gather_shards(
            _shards: Vec<Self>,
            _plan: &GatherPlan,
        ) -> Result<Self, DataParallelError> {
            panic!("{ON_PURPOSE}")
        }
    }

    for replicas in [1, 2] {
        let model = wrapped(replicas);
        let error = model
            .forward(Bad, |_: &Mlp, _| 0usize)
            .expect_err("scatter panicked");
        assert!(
            matches!(
                error,
                DataParallelError::Replica {
                    phase: Phase::Scatter,
                    ..
                }
            ),
            "{error}"
        );
        let error = model
            .forward(numbered(replicas, &device()), |_: &Mlp, _: Tensor<2>| Bad)
            .map(|_| ())
            .expect_err("gather panicked");
        assert!(
            matches!(
                error,
                DataParallelError::Replica {
                    phase: Phase::Gather,
                    ..
                }
            ),
            "{error}"
        );
        model
            .forward(numbered(replicas, &device()), |replica: &Mlp, x| {
                replica.forward(x)
            })
            .expect("it works again");
    }
}

/// A `Scatter` of the user's that gives too few shards must be told, not dropped or hung on.
#[test]
fn too_few_shards_are_an_error() {
    use burn_dp::{BatchInspector, Scatter, Shards};

    struct Short;
    impl Scatter for Short {
        fn inspect(&self, inspector: &mut BatchInspector) {
            inspector.rows(4);
        }
        fn into_shards(self, _shards: &Shards) -> Vec<Self> {
            vec![Short]
        }
        fn to_replica(self, _replica: usize, _shards: &Shards) -> Self {
            self
        }
    }
    let result = within(30, || {
        wrapped(3).forward(Short, |_: &Mlp, _| burn_dp::PerReplica(vec![()]))
    });
    assert!(result.is_err(), "rows were lost without a word: {result:?}");
}

#[test]
fn an_optimizer_made_before_a_failure_still_fits() {
    let model = wrapped(2);
    let mut optim = adam();
    let model = step(model, &mut optim, 0);
    model
        .forward(
            numbered(2, &device()),
            |_: &Mlp, _: Tensor<2>| -> Tensor<2> { panic!("{ON_PURPOSE}") },
        )
        .expect_err("failed");
    let before = parameters(&model);
    let output = model
        .forward(tensor([4, 3], 1, &device()), |replica: &Mlp, x| {
            replica.forward(x)
        })
        .expect("forward works");
    let grads = GradientsParams::from_grads(output.powf_scalar(2.0).mean().backward(), &model);
    let model = optim.step(RATE, model, grads);
    for (path, values) in parameters(&model) {
        assert_ne!(values, before[&path], "{path} did not change");
    }
}
