//! Wrappers and threads: shared, cloned, moved and dropped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DeviceIds, PerReplica};

use crate::compare::{assert_values_close, bits, gradients, parameters, values};
use crate::equivalence::{RATE, adam, sgd};
use crate::failure::within;
use crate::models::{Dropping, Mlp, device, random_numbers, tensor};

fn wrapped(replicas: usize) -> DataParallel<Mlp> {
    DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

fn loss(replica: &Mlp, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

/// Closures may carry state; each replica runs once, and the state is free again when the call returns.
#[test]
fn closures_may_capture_shared_state() {
    let model = wrapped(4);
    let (calls, rows) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (calls_in, rows_in) = (calls.clone(), rows.clone());
    model
        .forward(tensor([10, 3], 1, &device()), move |replica: &Mlp, x| {
            calls_in.fetch_add(1, Ordering::SeqCst);
            rows_in.lock().expect("no panic here").push(x.dims()[0]);
            replica.forward(x)
        })
        .expect("forward works");
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    let rows = Arc::try_unwrap(rows)
        .expect("nothing of the closure is left")
        .into_inner();
    let mut rows = rows.expect("no panic here");
    rows.sort_unstable();
    assert_eq!(rows, [2, 2, 3, 3]);
}

/// The primary runs on the caller's thread, and every other replica on a thread of its own that persists.
#[test]
fn each_replica_keeps_its_thread() {
    let model = wrapped(3);
    let ids = || {
        model
            .forward(tensor([3, 3], 1, &device()), |_: &Mlp, _: Tensor<2>| {
                PerReplica(vec![format!("{:?}", std::thread::current().id())])
            })
            .expect("forward works")
            .0
    };
    let first = ids();
    assert_eq!(first[0], format!("{:?}", std::thread::current().id()));
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
    for _ in 0..5 {
        assert_eq!(first, ids());
    }
}

/// Replicas that ran one after another would wait for each other here for ever.
#[test]
fn replicas_run_side_by_side() {
    // In training mode `forward` takes turns (Burn's graphs that share parameters need it); all else is side by side.
    within(30, || {
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let waits = {
            let barrier = barrier.clone();
            move |replica: &Mlp, x: Tensor<2>| {
                barrier.wait();
                replica.forward(x)
            }
        };
        let model = wrapped(3);
        model
            .valid()
            .forward(tensor([3, 3], 1, &device().inner()), waits.clone())
            .expect("forward works");
        model
            .train_step(tensor([3, 3], 1, &device()), move |replica: &Mlp, x| {
                waits(replica, x).mean()
            })
            .expect("the step works");
    });
}

#[test]
fn a_wrapper_is_used_from_several_threads_at_once() {
    within(60, || {
        let model = Arc::new(wrapped(3));
        let expected = |seed: usize| {
            let (value, grads) = model
                .train_step(tensor([7, 3], seed, &device()), loss)
                .expect("the step works");
            (values(&value), bits(&gradients(&*model, &grads)))
        };
        let all: Vec<_> = (0..4).map(expected).collect();
        std::thread::scope(|scope| {
            for (seed, expected) in all.iter().enumerate() {
                let model = model.clone();
                scope.spawn(move || {
                    for round in 0..50 {
                        let x = tensor([7, 3], seed, &device());
                        if round % 2 == 0 {
                            let (value, grads) = model.train_step(x, loss).expect("the step works");
                            let found = (values(&value), bits(&gradients(&*model, &grads)));
                            assert_eq!(*expected, found, "thread {seed}, round {round}");
                        } else {
                            // Without gradients: several threads that extend graphs of one leaf are a fault of Burn.
                            let x = x.inner();
                            let found = model
                                .valid()
                                .forward(x.clone(), |replica: &Mlp, x| replica.forward(x))
                                .expect("forward works");
                            let bare = model.module().valid().forward(x);
                            assert_values_close("forward", &values(&found), &values(&bare), 1e-6);
                        }
                    }
                });
            }
        });
    });
}

/// Replicas that take turns, from several threads: a turn must not wait for another call's.
#[test]
fn turns_of_several_threads_do_not_block_each_other() {
    within(60, || {
        let _random = random_numbers();
        let model =
            DataParallel::new(Dropping::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let model = &model;
                scope.spawn(move || {
                    for _ in 0..50 {
                        model
                            .forward(tensor([6, 3], 1, &device()), |replica: &Dropping, x| {
                                replica.forward(x)
                            })
                            .expect("forward works");
                    }
                });
            }
        });
    });
}

/// Clones share threads and replicas, but not parameters: each trains as if it were alone.
#[test]
fn a_clone_trains_apart_from_the_original() {
    let train = |mut model: DataParallel<Mlp>, seeds: &[usize]| {
        let mut optim = adam();
        for &seed in seeds {
            let (_, grads) = model
                .train_step(tensor([7, 3], seed, &device()), loss)
                .expect("the step works");
            model = optim.step(RATE, model, grads);
        }
        bits(&parameters(&model))
    };
    let alone_a = train(wrapped(3), &[0, 1, 2, 3]);
    let alone_b = train(wrapped(3), &[10, 11, 12, 13]);

    let mut a = wrapped(3);
    let mut b = a.clone();
    let untouched = a.clone();
    let before = bits(&parameters(&untouched));
    let (mut optim_a, mut optim_b) = (adam(), adam());
    for step in 0..4 {
        let (_, grads) = a
            .train_step(tensor([7, 3], step, &device()), loss)
            .expect("the step works");
        let (_, other) = b
            .train_step(tensor([7, 3], step + 10, &device()), loss)
            .expect("the step works");
        a = optim_a.step(RATE, a, grads);
        b = optim_b.step(RATE, b, other);
    }
    assert_eq!(bits(&parameters(&a)), alone_a);
    assert_eq!(bits(&parameters(&b)), alone_b);
    assert_eq!(bits(&parameters(&untouched)), before);
    let output = untouched
        .forward(tensor([7, 3], 1, &device()), |replica: &Mlp, x| {
            replica.forward(x)
        })
        .expect("forward works");
    let bare = untouched.module().forward(tensor([7, 3], 1, &device()));
    crate::compare::assert_values_close("the third clone", &values(&output), &values(&bare), 1e-6);
}

#[test]
fn clones_train_on_threads_of_their_own_at_once() {
    within(60, || {
        let start = wrapped(3);
        let train = |mut model: DataParallel<Mlp>, first: usize| {
            let mut optim = sgd();
            for step in 0..20 {
                let (_, grads) = model
                    .train_step(tensor([7, 3], first + step, &device()), loss)
                    .expect("the step works");
                model = optim.step(RATE, model, grads);
            }
            bits(&parameters(&model))
        };
        let expected: Vec<_> = (0..3).map(|i| train(wrapped(3), i * 100)).collect();
        std::thread::scope(|scope| {
            for (i, expected) in expected.iter().enumerate() {
                let clone = start.clone();
                scope.spawn(move || assert_eq!(train(clone, i * 100), *expected, "clone {i}"));
            }
        });
    });
}

#[test]
fn a_wrapper_may_be_dropped_while_others_exist() {
    within(60, || {
        let model = wrapped(3);
        let (clone, valid) = (model.clone(), burn::module::Module::valid(&model));
        drop(model);
        clone
            .train_step(tensor([7, 3], 1, &device()), loss)
            .expect("a clone works on");
        drop(clone);
        valid
            .forward(tensor([7, 3], 1, &device()), |replica: &Mlp, x| {
                replica.forward(x)
            })
            .expect("the validation wrapper works on");
    });
}

/// The last clone may go inside a replica's closure, on a worker's own thread.
#[test]
fn the_last_clone_may_be_dropped_by_a_worker() {
    within(60, || {
        for _ in 0..50 {
            let model = wrapped(3);
            let held = Mutex::new(vec![model.clone(), model.clone()]);
            model
                .forward(tensor([3, 3], 1, &device()), move |replica: &Mlp, x| {
                    drop(held.lock().expect("no panic here").pop());
                    replica.forward(x)
                })
                .expect("forward works");
            // And a wrapper that is unwrapped while its threads idle.
            let _ = model.into_inner();
        }
    });
}

#[test]
fn a_wrapper_moves_to_another_thread_and_back() {
    let mut model = wrapped(3);
    let mut optim = sgd();
    let mut expected = wrapped(3);
    let mut expected_optim = sgd();
    for step in 0..4 {
        let x = tensor([7, 3], step, &device());
        let (_, grads) = expected
            .train_step(x.clone(), loss)
            .expect("the step works");
        expected = expected_optim.step(RATE, expected, grads);
        (model, optim) = std::thread::spawn(move || {
            let (_, grads) = model.train_step(x, loss).expect("the step works");
            let model = optim.step(RATE, model, grads);
            (model, optim)
        })
        .join()
        .expect("the thread ends well");
    }
    assert_eq!(bits(&parameters(&model)), bits(&parameters(&expected)));
}

/// Threads end with the last wrapper: many wrappers made and dropped do not pile up threads.
#[cfg(target_os = "linux")]
#[test]
fn threads_end_with_their_wrapper() {
    let named = || {
        std::fs::read_dir("/proc/self/task")
            .expect("linux has it")
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.starts_with("replica 31"))
            .count()
    };
    for _ in 0..3 {
        let model = wrapped(32);
        // A thread takes its name when it starts to run.
        model
            .train_step(tensor([32, 3], 1, &device()), loss)
            .expect("the step works");
        assert!(
            named() >= 1,
            "the thread of replica 31 is not there, or has another name"
        );
        drop(model);
    }
    assert_eq!(named(), 0);
}
