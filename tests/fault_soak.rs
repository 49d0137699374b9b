//! Random faults in any phase of any replica, step after step: nothing hangs, every error names what failed, a failed step
//! leaves no trace, the next good step is right, and neither threads nor memory are lost.
//!
//! A test of its own, since threads and memory are the whole process's. `FAULT_STEPS=100000` makes it long.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};
use burn_dp::faults::{self, Fault};
use burn_dp::{DataParallel, DataParallelConfig, DataParallelError, DeviceIds, Phase};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[path = "behaviour/compare.rs"]
#[allow(dead_code)] // shared with the behaviour tests
mod compare;

use compare::{bits, parameters, values};

/// A step takes about 0.3 ms; one that is stuck is found after this.
const LIMIT: Duration = Duration::from_secs(1);
const ON_PURPOSE: &str = "fails on purpose";

#[derive(Module, Debug)]
struct Net {
    linear: Linear,
    norm: BatchNorm,
}

impl Net {
    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        let y = self.norm.forward(self.linear.forward(x));
        y.powf_scalar(2.0).mean()
    }
}

/// How a step goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Panic,
    /// The closure returns an error.
    Error,
    /// It takes its time, and works.
    Slow,
    /// No answer until long after the limit.
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: Kind,
    replica: usize,
    phase: Phase,
}

/// What goes wrong next, once, and what ends a wait.
type Planned = Option<(Plan, Receiver<()>)>;

#[derive(Clone, Default)]
struct Next(Arc<Mutex<Planned>>);

impl Next {
    fn take(&self, replica: usize, phase: Phase) -> Option<(Plan, Receiver<()>)> {
        let mut next = self.0.lock().expect("nobody panics with it");
        let (plan, _) = next.as_ref()?;
        let hit = (plan.replica, plan.phase) == (replica, phase) && plan.kind != Kind::Error;
        if hit { next.take() } else { None }
    }

    /// Whether the closure of `shard`, whose first value is the replica's number, is to return an error.
    fn is_error(&self, replica: usize) -> bool {
        let mut next = self.0.lock().expect("nobody panics with it");
        let hit = matches!(&*next, Some((plan, _)) if plan.kind == Kind::Error && plan.replica == replica);
        if hit {
            *next = None;
        }
        hit
    }
}

impl Fault for Next {
    fn enter(&self, replica: usize, phase: Phase) {
        let Some((plan, wait)) = self.take(replica, phase) else {
            return;
        };
        match plan.kind {
            Kind::Panic => panic!("{ON_PURPOSE}"),
            Kind::Slow => std::thread::sleep(Duration::from_millis(2)),
            Kind::Never => drop(wait.recv()),
            Kind::Error => {}
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

/// Three steps of ten are sound; of the others, one in a hundred never answers.
fn plans(replicas: usize) -> impl Strategy<Value = Option<Plan>> {
    let kind = prop_oneof![
        48 => Just(Kind::Panic),
        26 => Just(Kind::Error),
        25 => Just(Kind::Slow),
        1 => Just(Kind::Never),
    ];
    let plan = (kind, 0..replicas, proptest::sample::select(&PHASES[..]));
    prop_oneof![
        3 => Just(None),
        7 => plan.prop_map(|(kind, replica, phase)| Some(Plan { kind, replica, phase })),
    ]
}

fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(field));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    value.expect("it is there").parse().expect("a number")
}

/// Always the same net, sharing nothing with another.
fn wrap(replicas: usize) -> DataParallel<Net> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let net = Net {
        linear: LinearConfig::new(3, 4).init(&device),
        norm: BatchNormConfig::new(4).init(&device),
    };
    DataParallelConfig::new()
        .with_time_limit(LIMIT)
        .init_on(net, DeviceIds::repeat(0, replicas))
        .expect("it wraps")
}

struct Trained {
    model: DataParallel<Net>,
    optim: ModuleOptimizer,
}

/// Loss and parameters, to the bit.
type Seen = (Vec<f32>, BTreeMap<String, Vec<u32>>);

impl Trained {
    fn step(&mut self, x: Tensor<2>, next: &Next) -> Result<Seen, DataParallelError> {
        let next = next.clone();
        let step = move |net: &Net, x: Tensor<2>| {
            // Rows begin with the number of their replica.
            let replica = x.clone().slice([0..1, 0..1]).into_scalar::<f32>() as usize;
            if next.is_error(replica) {
                return Err(std::io::Error::other(ON_PURPOSE));
            }
            Ok(net.loss(x))
        };
        let (loss, grads) = self.model.train_step(x, step)?;
        self.model = self.optim.step(1e-3, self.model.clone(), grads);
        Ok((values(&loss), bits(&parameters(&self.model.valid()))))
    }
}

fn check_error(error: &DataParallelError, plan: Plan) {
    match error {
        DataParallelError::Replica {
            replica,
            device,
            phase,
            cause,
            ..
        } => {
            let phase_of_error = if plan.kind == Kind::Error {
                Phase::Apply
            } else {
                plan.phase
            };
            assert_eq!(
                (*replica, *phase),
                (plan.replica, phase_of_error),
                "{error}"
            );
            assert!(
                device.contains("Flex") && cause.contains(ON_PURPOSE),
                "{error}"
            );
        }
        DataParallelError::TimedOut { waiting, .. } => {
            assert_eq!(plan.kind, Kind::Never);
            let named = waiting
                .iter()
                .any(|waiting| (waiting.replica, waiting.phase) == (plan.replica, plan.phase));
            assert!(named, "{error}");
        }
        other => panic!("another error: {other}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn random_faults_leave_no_trace() {
    let steps = std::env::var("FAULT_STEPS").map_or(2000, |text| text.parse().expect("a number"));
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(ON_PURPOSE) {
            print(info);
        }
    }));
    let device = Device::flex().autodiff();
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let (mut faults_of_kind, mut good) = ([0usize; 4], 0usize);
    let mut settled = None;
    // Twice over all counts of replicas: memory and threads are compared from the first round on.
    for round in 0..2 {
        for replicas in 1..=8usize {
            let next = Next::default();
            let optim = || AdamConfig::new().init();
            let mut with = Trained {
                model: faults::with(next.clone(), || wrap(replicas)),
                optim: optim(),
            };
            let mut twin = Trained {
                model: wrap(replicas),
                optim: optim(),
            };
            for step in 0..steps / 16 {
                let noise = Tensor::<2>::random([2 * replicas, 3], Distribution::Default, &device);
                let numbers =
                    Tensor::<1, burn::tensor::Int>::arange(0..2 * replicas as i64, &device);
                let first = numbers
                    .float()
                    .div_scalar(2.0)
                    .floor()
                    .unsqueeze_dim::<2>(1);
                let x = noise.slice_assign([0..2 * replicas, 0..1], first);
                let plan = plans(replicas)
                    .new_tree(&mut runner)
                    .expect("a plan")
                    .current();
                let mut release = None;
                if let Some(plan) = plan {
                    faults_of_kind[plan.kind as usize] += 1;
                    let (end, wait) = channel();
                    release = Some(end);
                    *next.0.lock().expect("nobody panics with it") = Some((plan, wait));
                }
                let before = bits(&parameters(&with.model.valid()));
                match (with.step(x.clone(), &next), plan) {
                    (
                        Ok(seen),
                        None
                        | Some(Plan {
                            kind: Kind::Slow, ..
                        }),
                    ) => {
                        good += 1;
                        let expected = twin.step(x, &Next::default()).expect("it has no faults");
                        assert_eq!(seen, expected, "{replicas} replicas, step {step}");
                    }
                    (Err(error), Some(plan)) => {
                        check_error(&error, plan);
                        drop(release);
                        if plan.kind == Kind::Never {
                            // Its late end is undone on the coordinator's thread before the next step begins there.
                            let forward = |_: &Net, _: Tensor<2>| ();
                            with.model
                                .valid()
                                .forward(x.inner(), forward)
                                .expect("it works");
                        }
                        let after = bits(&parameters(&with.model.valid()));
                        assert_eq!(after, before, "{replicas} replicas, step {step}, {plan:?}");
                    }
                    (Ok(_), Some(plan)) => panic!("{plan:?} went unnoticed"),
                    (Err(error), None) => panic!("a sound step failed: {error}"),
                }
            }
        }
        let now = (status("Threads:"), status("VmRSS:"));
        if let (1, Some((threads, resident))) = (round, settled) {
            assert_eq!(now.0, threads, "threads are left over");
            let grown = now.1.saturating_sub(resident);
            println!("resident memory grew by {grown} KiB");
            assert!(grown < 16 << 10, "grown by {grown} KiB");
        }
        settled = Some(now);
    }
    let [panics, errors, slow, never] = faults_of_kind;
    println!(
        "{steps} steps: {panics} panics, {errors} errors, {slow} slow, {never} without an answer, {good} good"
    );
    assert!(good > 0 && panics > 0 && errors > 0 && slow > 0);
}
