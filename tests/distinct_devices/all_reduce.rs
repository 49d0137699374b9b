//! All-reduce: every replica steps its own copy, copies stay equal to the bit, and nothing is broadcast.

use burn::optim::AdamWConfig;
use burn_dp::{PerReplica, Reduction, ReplicatedOptimizer};

use super::*;

fn all_reduced(devices: &[Device]) -> DataParallel<Net> {
    let config = DataParallelConfig::new().with_reduction(Reduction::AllReduce);
    let ids = DeviceIds::devices(devices.iter().cloned());
    config
        .init_on(Net::new(&devices[0]), ids)
        .expect("it wraps")
}

/// The parameters of all replicas, as the next step sees them.
fn replicas(model: &DataParallel<Net>) -> Vec<Vec<f32>> {
    let step = |replica: &Net, x: Tensor<2>| {
        let weight = replica.linear.weight.val().detach();
        (loss(replica, x), PerReplica(vec![weight]))
    };
    let rows = model.replica_count();
    let ((_, weights), _) = model
        .train_step(batch(rows, 9, model.primary()), step)
        .expect("it works");
    weights.0.iter().map(values).collect()
}

#[test]
fn equals_one_device_with_short_batches_in_between() {
    let _alone = alone();
    within(240, || {
        for (devices, optim) in [(devices(), adam as fn() -> _), (reversed(), sgd)] {
            let mut bare = Net::new(&local());
            let mut bare_optim = optim();
            let mut model = all_reduced(&devices);
            let mut optim = ReplicatedOptimizer::new(optim());
            // The third and the sixth have fewer rows than there are devices.
            for (step, rows) in [5, 7, 2, 6, 4, 1, 5].into_iter().enumerate() {
                let expected = loss(&bare, batch(rows, step, &local()));
                let grads = GradientsParams::from_grads(expected.backward(), &bare);
                bare = bare_optim.step(RATE, bare, grads);
                let x = batch(rows, step, &devices[0]);
                let found = optim
                    .train_step(RATE, &mut model, x, loss)
                    .expect("it works");
                assert_values_close("loss", &values(&found), &values(&expected), TOLERANCE);
                let (left, right) = (parameters(&model), parameters(&bare));
                assert_close(&format!("step {step}"), &left, &right, TOLERANCE);
                assert_on(&model, &devices[0]);
            }
            let replicas = replicas(&model);
            assert!(
                replicas.iter().all(|weights| *weights == replicas[0]),
                "{replicas:?}"
            );
        }
    });
}

#[test]
fn nothing_is_broadcast_once_all_have_the_parameters() {
    let _alone = alone();
    within(120, || {
        let devices = devices();
        let mut model = all_reduced(&devices);
        let mut optim = ReplicatedOptimizer::new(adam());
        for step in 0..4 {
            let x = batch(6, step, &devices[0]);
            optim
                .train_step(RATE, &mut model, x, loss)
                .expect("it works");
            let stats = model.step_stats();
            let broadcast = stats.broadcast.transfers;
            assert_eq!(broadcast == 0, step > 0, "step {step}: {broadcast}");
            // Two copies of one bucket to the first device, and two back.
            assert_eq!(stats.reduce.transfers, 4);
            assert!(stats.optimizer.nanoseconds > 0);
        }
        let replicas = replicas(&model);
        assert!(replicas.iter().all(|weights| *weights == replicas[0]));
    });
}

#[derive(Module, Debug)]
struct NormNet {
    linear: Linear,
    norm: BatchNorm,
}

impl NormNet {
    fn new(device: &Device) -> Self {
        let device = device.clone().autodiff();
        filled(Self {
            linear: linear(2, 2, &device),
            norm: BatchNormConfig::new(2).init(&device),
        })
    }

    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        let y = self.norm.forward(self.linear.forward(x));
        y.powf_scalar(3.0).mean()
    }
}

/// Both strategies, side by side: the same numbers, and only statistics travel with an all-reduce.
#[test]
fn running_statistics_alone_are_broadcast() {
    let _alone = alone();
    within(240, || {
        let devices = devices();
        let run = |reduction| {
            let config = DataParallelConfig::new().with_reduction(reduction);
            let ids = DeviceIds::devices(devices.clone());
            let model = config.init_on(NormNet::new(&devices[0]), ids);
            let mut model = model.expect("it wraps");
            let mut optim = ReplicatedOptimizer::new(adam());
            let mut bytes = 0;
            for step in 0..3 {
                let x = batch(6, step, &devices[0]);
                let step = |net: &NormNet, x| net.loss(x);
                optim
                    .train_step(RATE, &mut model, x, step)
                    .expect("it works");
                bytes = model.step_stats().broadcast.bytes;
            }
            (bits(&parameters(&model.valid())), bytes)
        };
        let (all_reduced, statistics) = run(Reduction::AllReduce);
        let (primary, everything) = run(Reduction::Primary);
        assert_eq!(all_reduced, primary);
        // Two values each of mean and variance, to two replicas; all 12 values otherwise.
        assert_eq!((statistics, everything), (2 * 4 * 4, 2 * 14 * 4));
    });
}

#[test]
fn a_record_of_the_optimizer_resumes_on_other_devices_and_in_a_bare_loop() {
    let _alone = alone();
    within(240, || {
        let devices = devices();
        let optimizer = || AdamWConfig::new().init();
        let mut bare = Net::new(&local());
        let mut bare_optim = optimizer();
        let mut model = all_reduced(&devices);
        let mut optim = ReplicatedOptimizer::new(optimizer());
        let bare_step = |bare: Net, bare_optim: &mut ModuleOptimizer, step| {
            let grads = loss(&bare, batch(5, step, &local())).backward();
            let grads = GradientsParams::from_grads(grads, &bare);
            bare_optim.step(RATE, bare, grads)
        };
        for step in 0..2 {
            let x = batch(5, step, &devices[0]);
            optim
                .train_step(RATE, &mut model, x, loss)
                .expect("it works");
            bare = bare_step(bare, &mut bare_optim, step);
        }
        // On two devices, the primary being another.
        let ids = [devices[2].clone(), devices[0].clone()];
        let config = DataParallelConfig::new().with_reduction(Reduction::AllReduce);
        let module = model.into_inner();
        let model = config.init_on(module, DeviceIds::devices(ids.clone()));
        let mut model = model.expect("it wraps");
        let mut optim = ReplicatedOptimizer::new(optimizer()).load_record(optim.to_record());
        for step in 2..4 {
            let x = batch(5, step, &ids[0]);
            optim
                .train_step(RATE, &mut model, x, loss)
                .expect("it works");
            bare = bare_step(bare, &mut bare_optim, step);
        }
        assert_close(
            "resumed",
            &parameters(&model),
            &parameters(&bare),
            TOLERANCE,
        );
        // And back to a loop of Burn's own.
        let mut plain = optimizer().load_record(optim.to_record());
        let x = batch(5, 4, &ids[0]);
        let (_, grads) = model.train_step(x, loss).expect("it works");
        let model = plain.step(RATE, model, grads);
        bare = bare_step(bare, &mut bare_optim, 4);
        assert_close(
            "bare loop",
            &parameters(&model),
            &parameters(&bare),
            TOLERANCE,
        );
    });
}

#[test]
fn repeated_devices_are_refused() {
    let _alone = alone();
    let devices = devices();
    let config = DataParallelConfig::new()
        .with_allow_repeated(true)
        .with_reduction(Reduction::AllReduce);
    let ids = DeviceIds::devices([devices[0].clone(), devices[1].clone(), devices[0].clone()]);
    let error = config
        .init_on(Net::new(&devices[0]), ids)
        .expect_err("two are one");
    assert!(
        matches!(error, DataParallelError::RepeatedDevice { .. }),
        "{error}"
    );
}
