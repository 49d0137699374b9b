//! N replicas give what one card gives on the whole batch.

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use burn_dp::{DeviceIds, Reduction, ReplicatedOptimizer};

use crate::cards::{TOLERANCE, cards, config, loss, orders, wrapped};
use crate::compare::{assert_close, assert_values_close, gradients, parameters, values};
use crate::models::{Mlp, tensor};

/// More rows than replicas, fewer, and uneven ones.
const ROWS: [usize; 4] = [16, 9, 1, 13];

fn assert_equals_bare(ids: DeviceIds, what: &str) {
    for through_forward in [false, true] {
        let mut model = wrapped(Mlp::new, ids.clone());
        let primary = model.primary().clone();
        let mut bare = model.module().clone();
        let (mut optim, mut bare_optim) = (AdamConfig::new().init(), AdamConfig::new().init());
        for (seed, rows) in ROWS.into_iter().enumerate() {
            let x = || tensor([rows, 3], seed, &primary);
            let expected = loss(&bare, x());
            let expected_grads = GradientsParams::from_grads(expected.backward(), &bare);
            let (found, grads) = if through_forward {
                let output = model.forward(x(), |net: &Mlp, x| net.forward(x));
                let found = output.expect("it works").powf_scalar(2.0).mean();
                let grads = GradientsParams::from_grads(found.backward(), &model);
                (found, grads)
            } else {
                model.train_step(x(), loss).expect("it works")
            };
            assert_values_close(what, &values(&found), &values(&expected), TOLERANCE);
            let (left, right) = (gradients(&model, &grads), gradients(&bare, &expected_grads));
            let largest = assert_close(what, &left, &right, TOLERANCE);
            println!(
                "{what}, {rows} rows, forward {through_forward}: gradients differ by {largest:e}"
            );
            model = optim.step(0.01, model, grads);
            bare = bare_optim.step(0.01, bare, expected_grads);
        }
        assert_close(what, &parameters(&model), &parameters(&bare), TOLERANCE);
    }
}

#[test]
fn replicas_that_share_a_card() {
    assert!(!cards().is_empty(), "no card");
    for replicas in [1, 3] {
        assert_equals_bare(
            DeviceIds::repeat(0, replicas),
            &format!("{replicas} on one card"),
        );
    }
}

#[test]
fn a_card_each_in_any_order() {
    for ids in orders() {
        assert_equals_bare(ids.clone().into(), &format!("{ids:?}"));
    }
}

/// `[1, 0]`: the primary is not card 0. Records written there load elsewhere.
#[test]
fn a_record_moves_between_primaries() {
    for ids in orders() {
        let model = wrapped(Mlp::new, ids.clone());
        let x = tensor([5, 3], 1, model.primary());
        let (_, grads) = model.train_step(x, loss).expect("it works");
        let model = AdamConfig::new().init().step(0.1, model, grads);
        let record = model.clone().into_record();
        let elsewhere = Mlp::new(&Device::cuda(0).autodiff()).load_record(record);
        assert_close("record", &parameters(&elsewhere), &parameters(&model), 0.0);
    }
}

#[test]
fn all_reduce_equals_one_card() {
    for ids in orders() {
        let config = config().with_reduction(Reduction::AllReduce);
        let device = Device::cuda(ids[0]).autodiff();
        let mut model = config
            .init_on(Mlp::new(&device), ids.clone())
            .expect("it wraps");
        let mut bare = model.module().clone();
        let mut optim = ReplicatedOptimizer::new(AdamConfig::new().init());
        let mut bare_optim = AdamConfig::new().init();
        for (seed, rows) in ROWS.into_iter().enumerate() {
            let x = || tensor([rows, 3], seed, &device);
            let found = optim
                .train_step(0.01, &mut model, x(), loss)
                .expect("it works");
            let expected = loss(&bare, x());
            assert_values_close("loss", &values(&found), &values(&expected), TOLERANCE);
            let grads = GradientsParams::from_grads(expected.backward(), &bare);
            bare = bare_optim.step(0.01, bare, grads);
        }
        let largest = assert_close(
            "parameters",
            &parameters(&model),
            &parameters(&bare),
            TOLERANCE,
        );
        println!("{ids:?}, all-reduce: parameters differ by {largest:e}");
    }
}
