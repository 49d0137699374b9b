//! `ReplicatedOptimizer` on repeated devices, where it reduces onto the primary: numbers of bare Burn, and no trace of a
//! failed step.

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Tensor;
use burn_dp::faults::{self, Fault};
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Phase, ReplicatedOptimizer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::compare::{assert_close, bits, parameters};
use crate::failure::quiet;
use crate::models::{Mlp, Normed, device, tensor};

fn loss(net: &Mlp, x: Tensor<2>) -> Tensor<1> {
    net.forward(x).powf_scalar(2.0).mean()
}

#[test]
fn equals_bare_burn() {
    for replicas in [1, 2, 5] {
        let mut bare = Mlp::new(&device());
        let mut bare_optim = AdamConfig::new().init();
        let mut model =
            DataParallel::new(bare.clone(), DeviceIds::repeat(0, replicas)).expect("it wraps");
        let mut optim = ReplicatedOptimizer::new(AdamConfig::new().init());
        for seed in 0..4 {
            let x = || tensor([7, 3], seed, &device());
            optim
                .train_step(0.01, &mut model, x(), loss)
                .expect("it works");
            let grads = GradientsParams::from_grads(loss(&bare, x()).backward(), &bare);
            bare = bare_optim.step(0.01, bare, grads);
        }
        assert_close("parameters", &parameters(&model), &parameters(&bare), 1e-5);
    }
}

/// Panics when an optimizer steps, while it is armed.
struct Stepping(Arc<AtomicBool>);

impl Fault for Stepping {
    fn enter(&self, _replica: usize, phase: Phase) {
        if phase == Phase::Optimizer && self.0.load(Ordering::Relaxed) {
            panic!("the step fails on purpose");
        }
    }
}

/// Parameters, running statistics and the optimizer.
#[test]
fn an_optimizer_that_fails_leaves_model_and_optimizer_as_they_were() {
    quiet();
    let step = |net: &Normed, x: Tensor<2>| net.forward(x).powf_scalar(2.0).mean();
    let device = device();
    let armed = Arc::new(AtomicBool::new(false));
    let wrap = || DataParallel::new(Normed::new(&device), DeviceIds::repeat(0, 3));
    let mut model = faults::with(Stepping(armed.clone()), wrap).expect("it wraps");
    let mut optim = ReplicatedOptimizer::new(AdamConfig::new().init());
    let mut twin = wrap().expect("it wraps");
    let mut twin_optim = ReplicatedOptimizer::new(AdamConfig::new().init());
    for seed in 0..3 {
        let x = || tensor([7, 3], seed, &device);
        let before = bits(&parameters(&model.valid()));
        armed.store(true, Ordering::Relaxed);
        let error = optim
            .train_step(0.01, &mut model, x(), step)
            .expect_err("it fails");
        armed.store(false, Ordering::Relaxed);
        let named = matches!(
            error,
            DataParallelError::Replica {
                phase: Phase::Optimizer,
                ..
            }
        );
        assert!(named, "{error}");
        assert_eq!(bits(&parameters(&model.valid())), before);
        optim
            .train_step(0.01, &mut model, x(), step)
            .expect("it works");
        twin_optim
            .train_step(0.01, &mut twin, x(), step)
            .expect("it works");
        assert_eq!(
            bits(&parameters(&model.valid())),
            bits(&parameters(&twin.valid()))
        );
    }
}
