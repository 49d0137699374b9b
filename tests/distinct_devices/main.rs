//! The core behaviours on three devices that are distinct: one server in this process hosts three flex devices, so every move
//! between them is real. Models are tiny, since each answer of the server takes some 40 ms.

mod accumulation;
mod all_reduce;
#[allow(dead_code)] // shared with the behaviour tests
#[path = "../behaviour/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "../behaviour/models.rs"]
mod models;
#[cfg(feature = "fault-injection")]
mod self_check;

use std::net::TcpListener;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use burn::module::{Module, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear};
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::remote::RemoteHost;
use burn::tensor::{Device, Int, Tensor};
use burn_dp::{
    DataParallel, DataParallelConfig, DataParallelError, DeviceIds, Mean, PerReplica, Phase,
};
use tokio::runtime::Runtime;

use compare::{Values, assert_close, assert_values_close, bits, gradients, parameters, values};
use models::{device as local, filled, linear, tensor, with_parameters};

const TOLERANCE: f64 = 1e-5;
const RATE: f64 = 0.1;

fn serve<const N: usize>() -> (Runtime, RemoteHost) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let hosted: [Device; N] = std::array::from_fn(|_| Device::flex());
    runtime
        .spawn(RemoteServer::new(hosted).serve_async(WebSocketTransport::from_listener(listener)));
    (runtime, RemoteHost::websocket(&format!("ws://{address}")))
}

/// Hold this through a test: tests that move tensors between the same devices at once would wait for each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The three devices, for all tests.
fn devices() -> Vec<Device> {
    static SERVER: OnceLock<(Runtime, Vec<Device>)> = OnceLock::new();
    let (_, devices) = SERVER.get_or_init(|| {
        let (runtime, host) = serve::<3>();
        let devices = host.devices().expect("the server answers").into_vec();
        (runtime, devices)
    });
    devices.clone()
}

fn reversed() -> Vec<Device> {
    devices().into_iter().rev().collect()
}

fn within<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(test());
    });
    match result.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs: no end after {seconds} s"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a test that ends sends its result"),
        },
    }
}

#[derive(Module, Debug)]
struct Net {
    linear: Linear,
    columns: Param<Tensor<1, Int>>,
}

impl Net {
    fn new(device: &Device) -> Self {
        let device = device.clone().autodiff();
        filled(Self {
            linear: linear(2, 2, &device),
            columns: Param::initialized(
                burn::module::ParamId::new(),
                Tensor::from_ints([1, 0], &device),
            ),
        })
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.linear.forward(x.select(1, self.columns.val())).tanh()
    }
}

fn loss(model: &Net, x: Tensor<2>) -> Tensor<1> {
    model.forward(x).powf_scalar(2.0).mean()
}

fn wrapped(devices: &[Device]) -> DataParallel<Net> {
    let model = Net::new(&devices[0]);
    DataParallel::new(model, DeviceIds::devices(devices.iter().cloned())).expect("it wraps")
}

fn batch(rows: usize, step: usize, device: &Device) -> Tensor<2> {
    tensor([rows, 2], step, &device.clone().autodiff())
}

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

fn adam() -> ModuleOptimizer {
    AdamConfig::new().init()
}

fn assert_on<M: Module>(model: &M, device: &Device) {
    assert_eq!(
        model.devices(),
        vec![device.clone()],
        "parameters have left the primary"
    );
}

#[track_caller]
fn assert_gradients_on(model: &DataParallel<Net>, grads: &GradientsParams) {
    let linear = &model.module().linear;
    let weight = grads
        .get::<2>(linear.weight.id)
        .expect("the weight has a gradient");
    assert_eq!(weight.device(), *model.primary());
    let bias = linear.bias.as_ref().expect("there is a bias");
    let bias = grads.get::<1>(bias.id).expect("the bias has a gradient");
    assert_eq!(bias.device(), *model.primary());
}

/// Bare Burn on the local device: losses, gradients of each step, parameters at the end.
fn bare(
    rows: usize,
    steps: usize,
    optim: fn() -> ModuleOptimizer,
) -> (Vec<f32>, Vec<Values>, Values) {
    let mut model = Net::new(&local());
    let mut optim = optim();
    let (mut losses, mut all) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let loss = loss(&model, batch(rows, step, &local()));
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        losses.extend(values(&loss));
        all.push(gradients(&model, &grads));
        model = optim.step(RATE, model, grads);
    }
    (losses, all, parameters(&model))
}

fn assert_equals_bare(
    devices: &[Device],
    rows: usize,
    steps: usize,
    optim: fn() -> ModuleOptimizer,
) {
    let (losses, all, end) = bare(rows, steps, optim);
    let mut largest: f64 = 0.0;
    for train_step in [true, false] {
        let mut model = wrapped(devices);
        let mut optim = optim();
        for step in 0..steps {
            let what = format!("{rows} rows, step {step}, train_step {train_step}");
            // Batches come from the host now and from another device of the list then.
            let x = batch(
                rows,
                step,
                if step % 2 == 0 {
                    &devices[0]
                } else {
                    &devices[1]
                },
            );
            let (found, grads) = if train_step {
                model.train_step(x, loss).expect("the step works")
            } else {
                let output = model
                    .forward(x, |replica: &Net, x| replica.forward(x))
                    .expect("forward works");
                assert_eq!(output.device(), devices[0]);
                let found = output.powf_scalar(2.0).mean();
                let grads = GradientsParams::from_grads(found.backward(), &model);
                (found, grads)
            };
            assert_gradients_on(&model, &grads);
            largest = largest.max(assert_values_close(
                &what,
                &values(&found),
                &losses[step..=step],
                TOLERANCE,
            ));
            largest = largest.max(assert_close(
                &what,
                &gradients(&model, &grads),
                &all[step],
                TOLERANCE,
            ));
            model = optim.step(RATE, model, grads);
            assert_on(&model, &devices[0]);
        }
        largest = largest.max(assert_close(
            "parameters",
            &parameters(&model),
            &end,
            TOLERANCE,
        ));
    }
    println!("largest difference, {rows} rows: {largest:e}");
}

#[test]
fn each_replica_and_its_shard_are_on_a_device_of_their_own() {
    let _alone = alone();
    let devices = devices();
    for (index, device) in devices.iter().enumerate() {
        assert!(
            !devices[..index].contains(device),
            "the devices are not distinct: the tests here prove nothing"
        );
    }
    let model = wrapped(&devices);
    assert_eq!(model.replica_devices(), devices);
    let check = |replica: &Net, x: Tensor<2>| {
        let here = x.device();
        assert_eq!(
            replica.devices(),
            vec![here.clone()],
            "a replica visits parameters of its own device only"
        );
        (replica.forward(x), PerReplica(vec![here]))
    };
    // A batch from the last device: none of it belongs where it is but one shard.
    let (output, seen) = model
        .forward(batch(5, 1, &devices[2]), check)
        .expect("forward works");
    assert_eq!(seen.0, devices);
    assert_eq!(output.device(), devices[0]);
    let ((_, seen), _) = model
        .train_step(batch(5, 1, &devices[2]), move |replica: &Net, x| {
            let (output, seen) = check(replica, x);
            (output.mean(), seen)
        })
        .expect("the step works");
    assert_eq!(seen.0, devices);
    assert_on(&model, &devices[0]);
}

#[test]
fn sgd_equals_one_device() {
    let _alone = alone();
    assert_equals_bare(&devices(), 5, 3, sgd);
}

/// The primary is not device 0.
#[test]
fn adam_with_devices_in_reverse_equals_one_device() {
    let _alone = alone();
    assert_equals_bare(&reversed(), 5, 3, adam);
}

#[test]
fn uneven_and_tiny_batches_equal_one_device() {
    let _alone = alone();
    for rows in [1, 2, 4, 7] {
        assert_equals_bare(&devices(), rows, 1, sgd);
    }
}

#[test]
fn values_that_are_combined_come_to_the_output_device() {
    let _alone = alone();
    let devices = devices();
    let model = wrapped(&devices);
    let x = batch(5, 1, &devices[0]);
    let (Mean(mean), PerReplica(parts), ints) = model
        .forward(x.clone(), |_: &Net, x: Tensor<2>| {
            (
                Mean(x.clone().mean()),
                PerReplica(vec![x.clone().mean()]),
                x.greater_elem(0.0).int(),
            )
        })
        .expect("forward works");
    assert_eq!(mean.device(), devices[0]);
    assert_eq!(ints.device(), devices[0]);
    assert_values_close("mean", &values(&mean), &values(&x.clone().mean()), 1e-6);
    assert_eq!(
        compare::int_values(&ints),
        compare::int_values(&x.greater_elem(0.0).int())
    );
    let places: Vec<Device> = parts.iter().map(|part| part.device()).collect();
    assert_eq!(
        places, devices,
        "values kept apart stay where they were made"
    );
}

#[test]
fn another_output_device_gathers_outputs_there_and_gradients_on_the_primary() {
    let _alone = alone();
    let devices = devices();
    let model = DataParallelConfig::new()
        .with_output_device(2)
        .init_on(Net::new(&devices[0]), DeviceIds::devices(devices.clone()))
        .expect("it wraps");
    assert_eq!(*model.output_device(), devices[2]);
    let (_, all, _) = bare(5, 1, sgd);
    let x = batch(5, 0, &devices[0]);
    for rows in [5, 1] {
        let x = x.clone().slice([0..rows]);
        let output = model
            .forward(x, |replica: &Net, x| replica.forward(x))
            .expect("forward works");
        assert_eq!(output.device(), devices[2], "{rows} rows");
        let grads = GradientsParams::from_grads(output.powf_scalar(2.0).mean().backward(), &model);
        assert_gradients_on(&model, &grads);
        if rows == 5 {
            assert_close("forward", &gradients(&model, &grads), &all[0], TOLERANCE);
        }
    }
    let ((found, output), grads) = model
        .train_step(x, |replica: &Net, x| (loss(replica, x.clone()), x))
        .expect("the step works");
    assert_eq!(found.device(), devices[2]);
    assert_eq!(output.device(), devices[2]);
    assert_gradients_on(&model, &grads);
    assert_close("train_step", &gradients(&model, &grads), &all[0], TOLERANCE);
}

#[derive(Module, Debug)]
struct NormNet {
    norm: BatchNorm,
    linear: Linear,
}

impl NormNet {
    fn new(device: &Device) -> Self {
        let device = device.clone().autodiff();
        filled(Self {
            norm: BatchNormConfig::new(2).init(&device),
            linear: linear(2, 2, &device),
        })
    }

    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        self.linear
            .forward(self.norm.forward(x))
            .powf_scalar(2.0)
            .mean()
    }

    fn statistics(&self) -> [Tensor<1>; 2] {
        [
            self.norm.running_mean.value_sync(),
            self.norm.running_var.value_sync(),
        ]
    }
}

/// Burn moves a shared cell when a clone is forked: the statistics must stay on the primary, and follow its shard alone.
#[test]
fn running_statistics_stay_on_the_primary_and_follow_its_shard() {
    let _alone = alone();
    let devices = devices();
    let ids = DeviceIds::devices(devices.clone());
    let mut model = DataParallel::new(NormNet::new(&devices[0]), ids).expect("it wraps");
    let mut shadow = NormNet::new(&local());
    let mut optim = sgd();
    for step in 0..3 {
        shadow = with_parameters(shadow, &parameters(&model));
        shadow.loss(batch(6, step, &local()).slice([0..2]));
        let x = batch(6, step, &devices[0]);
        let grads = if step == 1 {
            let Mean(loss) = model
                .forward(x, |replica: &NormNet, x| Mean(replica.loss(x)))
                .expect("forward works");
            GradientsParams::from_grads(loss.backward(), &model)
        } else {
            model
                .train_step(x, |replica: &NormNet, x| replica.loss(x))
                .expect("the step works")
                .1
        };
        model = optim.step(RATE, model, grads);
        assert_on(&model, &devices[0]);
    }
    for (found, expected) in model.module().statistics().iter().zip(shadow.statistics()) {
        assert_eq!(found.device(), devices[0]);
        assert_values_close("statistics", &values(found), &values(&expected), TOLERANCE);
    }
    let x = batch(5, 9, &devices[0]).inner();
    let valid = model.valid();
    let output = valid
        .forward(x.clone(), |replica: &NormNet, x| {
            replica.linear.forward(replica.norm.forward(x))
        })
        .expect("forward works");
    let bare = valid
        .module()
        .linear
        .forward(valid.module().norm.forward(x));
    assert_values_close("validation", &values(&output), &values(&bare), 1e-6);
}

#[test]
fn running_statistics_of_a_replica_are_on_its_device() {
    let _alone = alone();
    let devices = devices();
    let ids = DeviceIds::devices(devices.clone());
    let model = DataParallel::new(NormNet::new(&devices[0]), ids).expect("it wraps");
    let check = |replica: &NormNet, x: Tensor<2>| {
        let [mean, variance] = replica.statistics().map(|value| value.device());
        PerReplica(vec![[x.device(), mean, variance]])
    };
    let expected: Vec<_> = devices
        .iter()
        .map(|device| [(); 3].map(|()| device.clone()))
        .collect();
    let x = batch(6, 0, &devices[0]);
    let seen = model.forward(x.clone(), check).expect("forward works");
    assert_eq!(seen.0, expected, "forward");
    let step = model.train_step(x.clone(), move |replica: &NormNet, x| {
        let seen = check(replica, x.clone());
        (replica.loss(x), seen)
    });
    let ((_, seen), _) = step.expect("the step works");
    assert_eq!(seen.0, expected, "train_step");
    let seen = model.valid().forward(x.inner(), check);
    assert_eq!(seen.expect("forward works").0, expected, "validation");
}

/// A clone that the caller kept elsewhere must not follow the wrapper to the primary.
#[test]
fn moving_a_model_leaves_the_callers_clone_where_it_is() {
    let _alone = alone();
    let devices = devices();
    let kept = NormNet::new(&devices[1]);
    let before = bits(&parameters(&kept));
    let ids = DeviceIds::devices([devices[0].clone(), devices[2].clone()]);
    let model = DataParallel::new(kept.clone(), ids).expect("it wraps");
    assert_on(&model, &devices[0]);
    model
        .train_step(batch(4, 1, &devices[0]), |replica: &NormNet, x| {
            replica.loss(x)
        })
        .expect("the step works");
    assert_on(&kept, &devices[1]);
    assert_eq!(before, bits(&parameters(&kept)));
}

#[derive(Module, Debug)]
struct DropNet {
    linear: Linear,
    dropout: Dropout,
}

impl DropNet {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.dropout.forward(self.linear.forward(x))
    }
}

fn dropping() -> DataParallel<DropNet> {
    let devices = devices();
    let device = devices[0].clone().autodiff();
    let model = filled(DropNet {
        linear: linear(2, 24, &device),
        dropout: DropoutConfig::new(0.5).init(),
    });
    DataParallel::new(model, DeviceIds::devices(devices)).expect("it wraps")
}

/// Copies between the same devices in opposite directions, from two threads: each must not wait for the other for ever.
#[test]
fn wrappers_with_opposite_orders_of_devices_step_at_once() {
    let _alone = alone();
    within(60, || {
        // On a server of its own, so that a hang here is not one of the other tests.
        let (_runtime, host) = serve::<3>();
        let devices = host.devices().expect("the server answers").into_vec();
        let opposite: Vec<Device> = devices.iter().rev().cloned().collect();
        let (_, all, _) = bare(5, 1, sgd);
        std::thread::scope(|scope| {
            for devices in [&devices, &opposite] {
                let expected = &all[0];
                scope.spawn(move || {
                    let model = wrapped(devices);
                    for _ in 0..20 {
                        let x = batch(5, 0, &devices[0]);
                        let (_, grads) = model.train_step(x, loss).expect("the step works");
                        assert_close("gradients", &gradients(&model, &grads), expected, TOLERANCE);
                    }
                });
            }
        });
    });
}

/// Three equal shards of two rows; which outputs each replica keeps.
fn masks(model: &DataParallel<DropNet>) -> Vec<Vec<bool>> {
    let shard = batch(2, 1, model.primary());
    let output = model
        .forward(Tensor::cat(vec![shard; 3], 0), |replica: &DropNet, x| {
            replica.forward(x)
        })
        .expect("forward works");
    values(&output)
        .chunks(48)
        .map(|part| part.iter().map(|&x| x != 0.0).collect())
        .collect()
}

#[test]
fn dropout_masks_differ_between_devices() {
    let _alone = alone();
    let model = dropping();
    model.seed_all(3);
    let masks = masks(&model);
    assert_eq!(masks.len(), 3);
    for (index, mask) in masks.iter().enumerate() {
        assert!(mask.contains(&true) && mask.contains(&false), "{mask:?}");
        assert!(
            !masks[..index].contains(mask),
            "replica {index} has the mask of another"
        );
    }
}

#[test]
fn a_seed_repeats_dropout_masks() {
    let _alone = alone();
    let model = dropping();
    let run = || {
        model.seed_all(3);
        [masks(&model), masks(&model)]
    };
    let first = run();
    for attempt in 0..5 {
        assert_eq!(first, run(), "attempt {attempt}");
    }
}

#[test]
fn a_replica_that_panics_gives_a_typed_error_and_the_next_step_works() {
    let _alone = alone();
    within(90, || {
        let devices = devices();
        let model = wrapped(&devices);
        let before = bits(&parameters(&model));
        let x = || batch(3, 0, &devices[0]);
        let good = || {
            let (value, grads) = model.train_step(x(), loss).expect("the step works");
            (values(&value), bits(&gradients(&model, &grads)))
        };
        let expected = good();
        for (index, device) in devices.iter().enumerate() {
            let here = device.clone();
            let error = model
                .train_step(x(), move |replica: &Net, x| {
                    assert_ne!(x.device(), here, "fails on purpose");
                    loss(replica, x)
                })
                .map(|_| ())
                .expect_err("a replica panicked");
            match &error {
                DataParallelError::Replica {
                    replica,
                    phase,
                    cause,
                    device,
                    ..
                } => {
                    assert_eq!((*replica, *phase), (index, Phase::Apply));
                    assert!(cause.contains("fails on purpose"), "{cause}");
                    let name = format!("{:?}", devices[index]);
                    assert!(name.contains(device.as_str()), "{device} is not {name}");
                }
                other => panic!("another error: {other}"),
            }
            assert_eq!(before, bits(&parameters(&model)));
            assert_eq!(expected, good(), "after replica {index} failed");
        }
    });
}

#[test]
fn records_load_with_a_primary_that_is_not_device_0() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model");
    let devices = reversed();
    let model = wrapped(&devices);
    let mut optim = adam();
    let (_, grads) = model
        .train_step(batch(5, 0, &devices[0]), loss)
        .expect("the step works");
    let model = optim.step(RATE, model, grads);
    let expected = bits(&parameters(&model));
    model.clone().save_file(&path).expect("it saves");

    let bare = Net::new(&local()).load_file(&path);
    assert_eq!(bits(&parameters(&bare)), expected);
    let loaded = wrapped(&devices).load_file(&path);
    assert_on(&loaded, &devices[0]);
    assert_eq!(bits(&parameters(&loaded)), expected);

    // The optimizer's state comes back on a default device, and must go on where the primary is.
    let bytes = optim.into_bytes().expect("it serializes");
    let mut resumed = adam().from_bytes(bytes).expect("it loads");
    let step = |model: DataParallel<Net>, optim: &mut ModuleOptimizer| {
        let (_, grads) = model
            .train_step(batch(5, 1, &devices[0]), loss)
            .expect("the step works");
        optim.step(RATE, model, grads)
    };
    let resumed = step(loaded, &mut resumed);
    assert_on(&resumed, &devices[0]);
    let unbroken = step(model, &mut optim);
    assert_eq!(bits(&parameters(&resumed)), bits(&parameters(&unbroken)));
}

#[test]
fn a_model_made_elsewhere_is_moved_to_the_primary_and_trains_there() {
    let _alone = alone();
    let devices = devices();
    let (losses, all, _) = bare(5, 1, sgd);
    // Another device of the list, and another backend.
    for elsewhere in [devices[1].clone(), local()] {
        let ids = DeviceIds::devices(devices.clone());
        let model = DataParallel::new(Net::new(&elsewhere), ids).expect("it wraps");
        assert_on(&model, &devices[0]);
        let (found, grads) = model
            .train_step(batch(5, 0, &devices[0]), loss)
            .expect("the step works");
        assert_gradients_on(&model, &grads);
        assert_values_close("loss", &values(&found), &losses, TOLERANCE);
        assert_close("gradients", &gradients(&model, &grads), &all[0], TOLERANCE);
    }
}

#[track_caller]
fn assert_placement(error: &DataParallelError, here: &Device, expected: &Device) {
    match error {
        DataParallelError::Placement {
            path,
            device,
            primary,
        } => {
            assert_eq!(path, "linear.weight");
            assert!(
                format!("{here:?}").contains(device.as_str()),
                "{device} is not {here:?}"
            );
            assert!(
                format!("{expected:?}").contains(primary.as_str()),
                "{primary} is not {expected:?}"
            );
            assert_ne!(device, primary, "the message names one device twice");
        }
        other => panic!("another error: {other}"),
    }
    assert!(error.to_string().contains("linear.weight"), "{error}");
}

#[test]
fn strict_placement_names_the_parameter_and_both_devices() {
    let _alone = alone();
    let devices = devices();
    let config = DataParallelConfig::new().with_strict(true);
    let ids = || DeviceIds::devices(devices.clone());
    let error = config
        .init_on(Net::new(&devices[1]), ids())
        .expect_err("it is elsewhere");
    assert_placement(&error, &devices[1], &devices[0]);
    let model = config.init_on(Net::new(&devices[0]), ids());
    assert!(model.is_ok(), "{model:?}");
}

/// A step whose parameters have left the primary is an error, and works again when they are back.
#[test]
fn a_forked_wrapper_is_a_placement_error_until_it_is_back() {
    let _alone = alone();
    let devices = devices();
    let away = wrapped(&devices).fork(&devices[1]);
    let x = || batch(5, 0, &devices[0]);
    let error = away
        .train_step(x(), loss)
        .map(|_| ())
        .expect_err("parameters are elsewhere");
    assert_placement(&error, &devices[1], &devices[0]);
    let error = away
        .forward(x(), |replica: &Net, x| replica.forward(x))
        .expect_err("parameters are elsewhere");
    assert_placement(&error, &devices[1], &devices[0]);
    let back = away.fork(&devices[0]);
    let (_, grads) = back.train_step(x(), loss).expect("the step works");
    let (_, all, _) = bare(5, 1, sgd);
    assert_close("back", &gradients(&back, &grads), &all[0], TOLERANCE);
}

/// One replica alone must look too. On a server of its own: operations over two devices end the session there.
#[test]
fn a_forked_wrapper_is_a_placement_error_for_a_single_row_too() {
    let _alone = alone();
    within(60, || {
        let (_runtime, host) = serve::<2>();
        let devices = host.devices().expect("the server answers").into_vec();
        let away = wrapped(&devices).fork(&devices[1]);
        let x = batch(1, 0, &devices[0]);
        let error = away
            .forward(x, |replica: &Net, x| replica.forward(x))
            .map(|_| ())
            .expect_err("parameters are elsewhere");
        assert_placement(&error, &devices[1], &devices[0]);
    });
}

#[test]
fn lists_that_do_not_fit_are_errors() {
    let _alone = alone();
    let devices = devices();
    let net = || Net::new(&devices[0]);
    let mixed = DeviceIds::devices([devices[0].clone(), Device::flex()]);
    let error = DataParallel::new(net(), mixed).expect_err("two backends");
    assert!(
        matches!(error, DataParallelError::MixedBackends { position: 1, .. }),
        "{error}"
    );
    let repeated = DeviceIds::devices([devices[0].clone(), devices[1].clone(), devices[0].clone()]);
    let error = DataParallel::new(net(), repeated).expect_err("one device twice");
    assert!(
        matches!(
            error,
            DataParallelError::RepeatedDevice {
                first: 0,
                second: 2,
                ..
            }
        ),
        "{error}"
    );
    for ids in [DeviceIds::from([0, 1]), DeviceIds::all()] {
        let error = DataParallel::new(net(), ids).expect_err("remote devices are not enumerated");
        assert!(
            matches!(error, DataParallelError::CannotEnumerate { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("DeviceIds::devices"), "{error}");
    }
}

#[test]
fn a_dead_server_is_a_typed_error_and_nothing_hangs() {
    let _alone = alone();
    within(100, || {
        let (runtime, host) = serve::<2>();
        let devices = host.devices().expect("the server answers").into_vec();
        let model = wrapped(&devices);
        let x = batch(4, 0, &devices[0]);
        model
            .train_step(x.clone(), loss)
            .expect("the step works while the server lives");
        runtime.shutdown_timeout(Duration::from_secs(5));

        let error = model
            .train_step(x.clone(), |replica: &Net, x| {
                let loss = loss(replica, x);
                // Read, as a training loop that prints the loss does.
                let _ = loss.clone().into_scalar::<f32>();
                loss
            })
            .map(|_| ())
            .expect_err("the server is gone");
        assert!(
            matches!(error, DataParallelError::Replica { .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("Remote"),
            "the device is not named: {error}"
        );
        let error = model
            .forward(x, |replica: &Net, x| {
                let output = replica.forward(x);
                let _ = output.to_data();
                output
            })
            .map(|_| ())
            .expect_err("the server is gone");
        assert!(
            matches!(error, DataParallelError::Replica { .. }),
            "{error}"
        );
        drop(model);
    });
}

/// Copies of a step are those of the buckets, however many parameters lie in them.
#[test]
fn transfers_depend_on_bytes_and_not_on_the_number_of_parameters() {
    let _alone = alone();
    let devices = devices();
    // 25 layers of 4 x 4 and 100 of 2 x 2 have 50 and 200 parameters; the weights are of the same bytes.
    let transfers = |layers: usize, width: usize, bucket: usize| {
        let layers: Vec<Linear> = (0..layers)
            .map(|_| linear(width, width, &devices[0].clone().autodiff()))
            .collect();
        let bytes = layers.num_params() * 4;
        let model = DataParallelConfig::new()
            .with_bucket_bytes(bucket)
            .init_on(layers, DeviceIds::devices(devices.clone()))
            .expect("it wraps");
        let mut optim = sgd();
        let x = || tensor([3, width], 0, &devices[0]);
        let step = |layers: &Vec<Linear>, x| {
            let output = layers.iter().fold(x, |x, layer| layer.forward(x));
            output.mean()
        };
        let (_, grads) = model.train_step(x(), step).expect("the first step works");
        let model = optim.step(0.1, model, grads);
        model.train_step(x(), step).expect("the step works");
        let stats = model.step_stats();
        assert_eq!(
            stats.bytes(),
            (2 * (devices.len() - 1) * bytes) as u64,
            "all bytes go out and come back"
        );
        let most = 2 * (devices.len() - 1) * bytes.div_ceil(bucket);
        assert!(
            (1..=most as u64).contains(&stats.transfers()),
            "{} copies, at most {most}",
            stats.transfers()
        );
        stats.transfers()
    };
    assert_eq!(
        transfers(25, 4, 1 << 20),
        4,
        "one bucket each way and replica"
    );
    assert_eq!(transfers(100, 2, 1 << 20), 4);
    assert!(transfers(100, 2, 512) > 4, "the test could not fail");
}

/// Nothing goes out when nothing has changed.
#[test]
fn unchanged_parameters_are_not_sent_again() {
    let _alone = alone();
    let devices = devices();
    let model = wrapped(&devices).valid();
    let run = || {
        let x = batch(3, 0, &devices[0]).inner();
        let output = model.forward(x, |replica: &Net, x| replica.forward(x));
        output.expect("forward works");
        model.step_stats().broadcast.transfers
    };
    assert!(run() > 0);
    assert_eq!(run(), 0);
}
