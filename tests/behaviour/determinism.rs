//! The same run twice is equal bit for bit, whatever the scheduler does; and many threaded steps end well.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DeviceIds};

use crate::compare::{bits, gradients, parameters, values};
use crate::equivalence::{RATE, adam, sgd};
use crate::failure::within;
use crate::models::{Mlp, Normed, device, tensor};

type Bits = BTreeMap<String, Vec<u32>>;

fn twenty_steps<M: Module + 'static>(
    model: M,
    forward: fn(&M, Tensor<2>) -> Tensor<2>,
    train_step: bool,
) -> (Vec<u32>, Vec<Bits>, Bits) {
    let mut model = DataParallel::new(model, DeviceIds::repeat(0, 4)).expect("it wraps");
    let mut optim = adam();
    let (mut losses, mut all) = (Vec::new(), Vec::new());
    for step in 0..20 {
        let x = tensor([10, 3], step, &device());
        let (loss, grads) = if train_step {
            model
                .train_step(x, move |replica, x| {
                    forward(replica, x).powf_scalar(2.0).mean()
                })
                .expect("the step works")
        } else {
            let output = model.forward(x, forward).expect("forward works");
            let loss = output.powf_scalar(2.0).mean();
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            (loss, grads)
        };
        losses.extend(values(&loss).iter().map(|x| x.to_bits()));
        all.push(bits(&gradients(&model, &grads)));
        model = optim.step(RATE, model, grads);
    }
    (losses, all, bits(&parameters(&model)))
}

#[test]
fn twenty_steps_on_four_replicas_repeat_bit_for_bit() {
    for train_step in [true, false] {
        let first = twenty_steps(Mlp::new(&device()), Mlp::forward, train_step);
        let norm = twenty_steps(Normed::new(&device()), Normed::forward, train_step);
        for _ in 0..3 {
            assert_eq!(
                first,
                twenty_steps(Mlp::new(&device()), Mlp::forward, train_step)
            );
            assert_eq!(
                norm,
                twenty_steps(Normed::new(&device()), Normed::forward, train_step)
            );
        }
    }
}

/// Sums in order of arrival would differ only now and then: replicas arrive in reverse here.
#[test]
fn the_order_in_which_replicas_end_does_not_change_a_bit() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 4)).expect("it wraps");
    let x = tensor([10, 3], 1, &device());
    let run = |slow_first: bool| {
        let (loss, grads) = model
            .train_step(x.clone(), move |replica: &Mlp, x: Tensor<2>| {
                let large = x.dims()[0] == 3;
                if large == slow_first {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                replica.forward(x).powf_scalar(2.0).mean()
            })
            .expect("the step works");
        (values(&loss), bits(&gradients(&model, &grads)))
    };
    assert_eq!(run(true), run(false));
}

fn two_thousand_steps(train_step: bool) {
    within(60, move || {
        let mut model =
            DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
        let mut optim = sgd();
        let x = tensor([6, 3], 1, &device());
        let loss = |replica: &Mlp, x| replica.forward(x).powf_scalar(2.0).mean();
        let first = loss(model.module(), x.clone()).into_scalar::<f32>();
        for _ in 0..2000 {
            let grads = if train_step {
                model.train_step(x.clone(), loss).expect("the step works").1
            } else {
                let output = model.forward(x.clone(), |replica: &Mlp, x| replica.forward(x));
                let output = output.expect("forward works");
                GradientsParams::from_grads(output.powf_scalar(2.0).mean().backward(), &model)
            };
            assert_eq!(grads.len(), 4);
            model = optim.step(0.01, model, grads);
        }
        let last = loss(model.module(), x).into_scalar::<f32>();
        assert!(last < first * 0.5, "it has not learned: {first} to {last}");
    });
}

/// Autodiff across threads has panicked after many steps elsewhere ("node should have a step registered").
#[test]
fn two_thousand_train_steps_end_without_a_panic() {
    two_thousand_steps(true);
}

/// The same for one graph that several threads write to.
#[test]
fn two_thousand_forwards_and_backwards_end_without_a_panic() {
    two_thousand_steps(false);
}
