//! Running statistics: replicas normalize by their own shard, and the primary's shard alone updates the primary's statistics.

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::BatchNormConfig;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DeviceIds, PerReplica, balanced_sizes};

use crate::compare::{
    assert_close, assert_values_close, bits, difference, gradients, parameters, values,
};
use crate::equivalence::{RATE, TOLERANCE, sgd};
use crate::models::{Normed, device, tensor, with_parameters};

fn loss(replica: &Normed, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

fn wrapped(replicas: usize) -> DataParallel<Normed> {
    DataParallel::new(Normed::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

/// Rows whose shards differ much in mean and spread, so that statistics of another shard would show.
fn batch(rows: usize, step: usize) -> Tensor<2> {
    let scale: Vec<f32> = (0..rows).map(|row| 1.0 + (row * row) as f32).collect();
    let scale = Tensor::<1>::from_floats(scale.as_slice(), &device()).reshape([rows, 1]);
    (tensor([rows, 3], step, &device()) + 0.3) * scale
}

fn shards(x: &Tensor<2>, replicas: usize) -> Vec<Tensor<2>> {
    let mut start = 0;
    balanced_sizes(x.dims()[0], replicas)
        .into_iter()
        .map(|rows| {
            start += rows;
            x.clone().slice([start - rows..start])
        })
        .collect()
}

/// The rule in bare Burn: `shadow` trains on the primary's shard alone, with the wrapper's parameters.
#[test]
fn ten_steps_follow_the_documented_rule() {
    for replicas in [1, 2, 3] {
        for train_step in [true, false] {
            let mut model = wrapped(replicas);
            let mut shadow = Normed::new(&device());
            let mut optim = sgd();
            for step in 0..10 {
                let x = batch(9, step);
                shadow = with_parameters(shadow, &parameters(&model));
                let shards = shards(&x, replicas);
                shadow.forward(shards[0].clone());

                // What each replica gives: a model of its own, so that no state is shared.
                let mut expected_loss = 0.0;
                let mut whole: Option<Tensor<1>> = None;
                let fresh = with_parameters(Normed::new(&device()), &parameters(&model));
                for shard in &shards {
                    let share = shard.dims()[0] as f64 / 9.0;
                    let part = loss(&fresh, shard.clone()) * share;
                    expected_loss += part.clone().into_scalar::<f32>();
                    whole = Some(match whole {
                        Some(sum) => sum + part,
                        None => part,
                    });
                }
                let whole = whole.expect("there are shards");
                let expected = gradients(
                    &fresh,
                    &GradientsParams::from_grads(whole.backward(), &fresh),
                );

                let (found_loss, grads) = if train_step {
                    model.train_step(x, loss).expect("the step works")
                } else {
                    let output = model
                        .forward(x, |replica: &Normed, x| replica.forward(x))
                        .expect("forward works");
                    let loss = output.powf_scalar(2.0).mean();
                    let grads = GradientsParams::from_grads(loss.backward(), &model);
                    (loss, grads)
                };
                let what = format!("step {step} on {replicas}, train_step {train_step}");
                assert_values_close(&what, &values(&found_loss), &[expected_loss], TOLERANCE);
                assert_close(&what, &gradients(&model, &grads), &expected, 1e-4);
                model = optim.step(RATE, model, grads);
            }
            let what = format!("statistics on {replicas}, train_step {train_step}");
            let (mean, var) = model.module().statistics();
            let (expected_mean, expected_var) = shadow.statistics();
            assert_values_close(&what, &mean, &expected_mean, TOLERANCE);
            assert_values_close(&what, &var, &expected_var, TOLERANCE);
            assert!(
                difference(&mean, &[0.0; 4]) > 0.01,
                "the statistics have not moved: {mean:?}"
            );
        }
    }
}

/// Only rows of the other shards differ: the primary's statistics must not.
#[test]
fn other_shards_do_not_leak_into_the_primary_statistics() {
    let first = tensor([3, 3], 1, &device());
    let run = |rest: Tensor<2>| {
        let model = wrapped(3);
        for _ in 0..3 {
            model
                .train_step(Tensor::cat(vec![first.clone(), rest.clone()], 0), loss)
                .expect("the step works");
        }
        model.module().statistics()
    };
    let rest = tensor([6, 3], 2, &device());
    assert_eq!(run(rest.clone()), run(rest * 1000.0));
}

/// What a replica starts a step with are the primary's statistics of that moment, not those of the first step.
#[test]
fn replicas_start_each_step_with_the_statistics_of_the_primary() {
    let model = wrapped(3);
    for step in 0..3 {
        model
            .train_step(batch(9, step), loss)
            .expect("the step works");
        let now = model.module().statistics();
        let seen = model
            .valid()
            .forward(batch(9, step), |replica: &Normed, _| {
                PerReplica(vec![replica.statistics()])
            })
            .expect("forward works");
        assert_eq!(seen.0, vec![now.clone(); 3], "in validation, step {step}");
        let seen = model
            .forward(batch(9, step), |replica: &Normed, _| {
                PerReplica(vec![replica.statistics()])
            })
            .expect("forward works");
        assert_eq!(seen.0, vec![now; 3], "in training, step {step}");
    }
}

#[test]
fn validation_uses_the_statistics_and_does_not_change_them() {
    let mut model = wrapped(3);
    let mut optim = sgd();
    for step in 0..5 {
        let (_, grads) = model
            .train_step(batch(9, step), loss)
            .expect("the step works");
        model = optim.step(RATE, model, grads);
    }
    let before = model.module().statistics();
    let x = batch(7, 99);
    let bare = model.module().valid().forward(x.clone().inner());
    let valid = model.valid();
    for _ in 0..2 {
        let output = valid
            .forward(x.clone().inner(), |replica: &Normed, x| replica.forward(x))
            .expect("forward works");
        assert_values_close("validation", &values(&output), &values(&bare), 1e-6);
    }
    assert_eq!(before, valid.module().statistics());
    assert_eq!(before, model.module().statistics());
    // Were the initial statistics used, the outputs would be these.
    let fresh = with_parameters(Normed::new(&device()), &parameters(&model)).valid();
    assert!(difference(&values(&fresh.forward(x.inner())), &values(&bare)) > 1e-3);
}

/// Burn keys pending statistics by thread; a step from a new thread each time must not lose any.
#[test]
fn steps_from_a_new_thread_each_accumulate_statistics_as_from_one() {
    let (one, many) = (wrapped(3), wrapped(3));
    for step in 0..10 {
        one.train_step(batch(9, step), loss)
            .expect("the step works");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                many.train_step(batch(9, step), loss)
                    .expect("the step works")
            });
        });
    }
    let valid = |model: &DataParallel<Normed>| bits(&parameters(&model.valid()));
    assert_eq!(valid(&one), valid(&many));
}

#[test]
fn a_frozen_batch_norm_keeps_its_statistics() {
    let model = wrapped(3);
    model.train_step(batch(9, 0), loss).expect("the step works");
    let model = model.map_module(|mut module| {
        module.norm = module.norm.freeze();
        module
    });
    let before = model.module().statistics();
    let x = batch(9, 1);
    let (found, grads) = model.train_step(x.clone(), loss).expect("the step works");
    assert_eq!(before, model.module().statistics());
    // With running statistics rows do not depend on each other, so this is the whole batch on one device.
    let bare = loss(model.module(), x);
    let expected = GradientsParams::from_grads(bare.clone().backward(), model.module());
    assert_values_close("frozen", &values(&found), &values(&bare), TOLERANCE);
    assert_close(
        "frozen",
        &gradients(&model, &grads),
        &gradients(&model, &expected),
        TOLERANCE,
    );
}

/// A wrapper must not change what a clone of the model, kept by the caller, shows.
#[test]
fn a_wrapper_on_the_models_own_device_keeps_sharing_as_burn_does() {
    let bare = Normed::new(&device());
    let model = DataParallel::new(bare.clone(), DeviceIds::repeat(0, 2)).expect("it wraps");
    let before = parameters(&bare);
    let (_, grads) = model.train_step(batch(8, 1), loss).expect("the step works");
    let _ = sgd().step(RATE, model, grads);
    // Statistics are one cell for all clones (Burn's doing); parameters are not.
    for (path, values) in parameters(&bare) {
        if !path.contains("running") {
            assert_eq!(values, before[&path], "{path}");
        }
    }
}

struct Zero;

impl ModuleMapper for Zero {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| value.zeros_like())
    }
}

/// The fault of Burn that the private copies of replicas work around. When this fails, Burn has changed, and the copies can
/// be made by a plain clone.
#[test]
fn a_plain_clone_still_shares_running_state() {
    let norm = BatchNormConfig::new(3).init(&device());
    let clone = norm.clone();
    clone.forward(tensor([4, 3], 1, &device()) + 5.0);
    let seen = values(&norm.running_mean.value_sync());
    assert!(
        difference(&seen, &[0.0; 3]) > 0.1,
        "forward on a clone no longer writes into the original: {seen:?}"
    );
    let _ = norm.clone().map(&mut Zero);
    let seen = values(&norm.running_var.value());
    assert_eq!(
        seen, [0.0; 3],
        "map on a clone no longer writes into the original"
    );
}
