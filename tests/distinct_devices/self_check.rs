//! The self-check finds a device whose copies arrive changed, and the remedies work.

use burn::tensor::{Device, Tensor};
use burn_dp::faults::{self, Fault};
use burn_dp::{
    DataParallel, DataParallelConfig, DataParallelError, DeviceIds, OnBadCopy, Scatter, Sharded,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::*;

/// Copies from one device to another arrive as zeros; the other way they are right.
struct WrongBytes {
    from: Device,
    into: Device,
}

impl Fault for WrongBytes {
    fn corrupts(&self, from: &Device, into: &Device) -> bool {
        (from, into) == (&self.from, &self.into)
    }
}

fn wrap(
    config: DataParallelConfig,
    bad: (usize, usize),
) -> Result<DataParallel<Net>, DataParallelError> {
    let devices = devices();
    let fault = WrongBytes {
        from: devices[bad.0].clone(),
        into: devices[bad.1].clone(),
    };
    let net = Net::new(&devices[0].clone().autodiff());
    faults::with(fault, || config.init_on(net, DeviceIds::devices(devices)))
}

#[test]
fn every_ordered_pair_is_tried() {
    let _alone = alone();
    within(120, || {
        let names: Vec<String> = devices()
            .iter()
            .map(|device| format!("{device:?}"))
            .map(|name| {
                name.replace("Device<", "")
                    .trim_end_matches('>')
                    .to_string()
            })
            .collect();
        for from in 0..3 {
            for into in (0..3).filter(|&into| into != from) {
                let error = wrap(DataParallelConfig::new(), (from, into)).expect_err("it is found");
                match error {
                    DataParallelError::SelfCheck {
                        from: sender,
                        into: receiver,
                        problem,
                    } => {
                        assert_eq!((&sender, &receiver), (&names[from], &names[into]));
                        assert!(problem.contains("arrived changed"), "{problem}");
                    }
                    other => panic!("another error: {other}"),
                }
            }
        }
    });
}

#[test]
fn bad_copies_go_through_the_host_where_that_is_asked_for() {
    let _alone = alone();
    within(120, || {
        let config = DataParallelConfig::new().with_on_bad_copy(OnBadCopy::HostStaged);
        for bad in [(0, 1), (2, 0)] {
            let model = wrap(config.clone(), bad).expect("it wraps");
            let good = wrap(DataParallelConfig::new().with_self_check(false), (0, 0))
                .expect("so does this");
            let primary = model.primary().clone();
            let x = || tensor([7, 2], 3, &primary);
            let step = |net: &Net, x: Tensor<2>| net.forward(x).powf_scalar(2.0).mean();
            let (loss, grads) = model.train_step(x(), step).expect("the step works");
            let (expected, expected_grads) = good.train_step(x(), step).expect("so does this");
            assert_eq!(values(&loss), values(&expected), "{bad:?}");
            assert_eq!(
                bits(&gradients(&model, &grads)),
                bits(&gradients(&good, &expected_grads))
            );
            let output = model
                .valid()
                .forward(x().inner(), |net: &Net, x| net.forward(x));
            assert_eq!(output.expect("validation works").dims()[0], 7);
            let error = model.forward(x(), |net: &Net, x| net.forward(x));
            let error = error.expect_err("autodiff cannot follow");
            assert!(
                matches!(error, DataParallelError::StagedGraph { .. }),
                "{error}"
            );
        }
    });
}

#[test]
fn without_the_check_wrong_copies_would_go_unnoticed() {
    let _alone = alone();
    within(120, || {
        let config = DataParallelConfig::new().with_self_check(false);
        let model = wrap(config, (0, 1)).expect("nothing is seen");
        let primary = model.primary().clone();
        let output = model
            .valid()
            .forward(
                tensor([6, 2], 3, &primary.clone().inner()),
                |net: &Net, x| net.forward(x),
            )
            .expect("nothing is seen here either");
        let expected = model
            .module()
            .valid()
            .forward(tensor([6, 2], 3, &primary.inner()));
        assert_ne!(values(&output), values(&expected));
    });
}

#[derive(Scatter, Clone)]
struct Batch {
    x: Tensor<2>,
    #[scatter(shared)]
    scale: Tensor<1>,
}

/// Whatever way a tensor comes to a replica: whole on all of them, cut before, or alone.
#[test]
fn no_copy_takes_a_way_of_its_own() {
    let _alone = alone();
    within(240, || {
        let config = DataParallelConfig::new().with_on_bad_copy(OnBadCopy::HostStaged);
        let devices = devices();
        let on = |index: usize| devices[index].clone().autodiff();
        for bad in [(0, 1), (1, 0)] {
            let model = wrap(config.clone(), bad).expect("it wraps");
            let good = wrap(DataParallelConfig::new().with_self_check(false), (0, 0))
                .expect("so does this");
            let scale = |index| Tensor::<1>::from_floats([2.0, 3.0], &on(index));
            for (rows, index) in [(6, 0), (6, 1), (1, 1)] {
                let batch = || Batch {
                    x: tensor([rows, 2], 3, &on(index)),
                    scale: scale(index),
                };
                let step = |net: &Net, batch: Batch| {
                    (net.forward(batch.x) * batch.scale.unsqueeze()).mean()
                };
                let (loss, _) = model.train_step(batch(), step).expect("it works");
                let (expected, _) = good.train_step(batch(), step).expect("so does this");
                assert_eq!(values(&loss), values(&expected), "{bad:?} {rows} {index}");
                // Cut, and each shard made on the device of another replica.
                let shard = |seed, index| (tensor([2, 2], seed, &on(index)), 2);
                let batch = || Sharded::new([shard(1, 1), shard(2, 0)]);
                let step =
                    |net: &Net, shard: Sharded<Tensor<2>>| net.forward(shard.into_shard()).mean();
                let (loss, _) = model.train_step(batch(), step).expect("it works");
                let (expected, _) = good.train_step(batch(), step).expect("so does this");
                assert_eq!(values(&loss), values(&expected), "{bad:?}");
            }
        }
    });
}

/// A model that is on another device than the primary is moved there with the check's result in hand.
#[test]
fn the_model_itself_takes_the_way_round() {
    let _alone = alone();
    within(120, || {
        let devices = devices();
        let fault = WrongBytes {
            from: devices[1].clone(),
            into: devices[0].clone(),
        };
        let net = Net::new(&devices[1].clone().autodiff());
        let expected = bits(&parameters(&net));
        let config = DataParallelConfig::new().with_on_bad_copy(OnBadCopy::HostStaged);
        let wrap = || config.init_on(net, DeviceIds::devices(devices));
        let model = faults::with(fault, wrap).expect("it wraps");
        assert_eq!(bits(&parameters(&model)), expected);
    });
}

/// Copies that never arrive, until the sender of the channel is dropped.
struct Stuck(std::sync::Mutex<mpsc::Receiver<()>>);

impl Fault for Stuck {
    fn corrupts(&self, _from: &Device, _into: &Device) -> bool {
        let wait = self.0.lock().expect("nobody panics with it");
        let _ = wait.recv();
        false
    }
}

#[test]
fn with_a_time_limit_a_copy_that_never_arrives_is_an_error_when_the_wrapper_is_made() {
    let _alone = alone();
    within(60, || {
        let (end, wait) = mpsc::channel();
        let limit = Duration::from_millis(500);
        let config = DataParallelConfig::new().with_time_limit(limit);
        let devices = devices();
        let net = Net::new(&devices[0].clone().autodiff());
        let fault = Stuck(std::sync::Mutex::new(wait));
        let started = std::time::Instant::now();
        let made = faults::with(fault, || config.init_on(net, DeviceIds::devices(devices)));
        match made.expect_err("nothing arrives") {
            DataParallelError::SelfCheck { problem, .. } => {
                assert!(problem.contains("500ms"), "{problem}");
            }
            other => panic!("another error: {other}"),
        }
        assert!(started.elapsed() < 10 * limit, "{:?}", started.elapsed());
        drop(end);
    });
}

/// Counts the threads that copy at the same time.
#[derive(Clone, Default)]
struct Overlap(Arc<(AtomicUsize, AtomicUsize)>);

impl Fault for Overlap {
    fn corrupts(&self, _from: &Device, _into: &Device) -> bool {
        let (now, most) = &*self.0;
        most.fetch_max(1 + now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        false
    }
}

/// Two threads that issue copies in two orders could wait for each other for ever where connections are made lazily.
#[test]
fn copies_of_wrappers_in_several_threads_do_not_overlap() {
    let _alone = alone();
    within(240, || {
        let overlap = Overlap::default();
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let devices = if thread == 1 { reversed() } else { devices() };
                let net = Net::new(&devices[0].clone().autodiff());
                let wrap = || DataParallel::new(net, DeviceIds::devices(devices));
                let model = faults::with(overlap.clone(), wrap).expect("it wraps");
                std::thread::spawn(move || {
                    let x = |step| batch(6, step, model.primary());
                    for step in 0..2 {
                        if thread == 0 {
                            model.train_step(x(step), loss).expect("it works");
                        } else {
                            let forward = |net: &Net, x: Tensor<2>| net.forward(x);
                            let output = model.valid().forward(x(step).inner(), forward);
                            output.expect("it works");
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(overlap.0.1.load(Ordering::SeqCst), 1);
    });
}
