//! Validation: outputs that do not depend on the number of replicas, no autodiff, and training afterwards.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DeviceIds};

use crate::compare::{assert_close, assert_values_close, bits, gradients, parameters, values};
use crate::equivalence::{RATE, TOLERANCE, sgd};
use crate::models::{Dropping, Mlp, Normed, device, tensor};

fn wrap<M: Module>(model: M, replicas: usize) -> DataParallel<M> {
    DataParallel::new(model, DeviceIds::repeat(0, replicas)).expect("it wraps")
}

fn loss(replica: &Mlp, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

fn check<M: Module + 'static>(what: &str, model: M, forward: fn(&M, Tensor<2>) -> Tensor<2>) {
    for rows in [1, 3, 8] {
        let x = tensor([rows, 3], 1, &Device::flex());
        let bare = forward(&model.valid(), x.clone());
        for replicas in 1..=4 {
            let output = wrap(model.clone(), replicas)
                .valid()
                .forward(x.clone(), forward)
                .expect("forward works");
            assert!(!output.is_autodiff(), "{what}");
            assert_values_close(what, &values(&output), &values(&bare), 1e-6);
        }
    }
}

#[test]
fn outputs_are_equal_for_one_to_four_replicas() {
    check("MLP", Mlp::new(&device()), Mlp::forward);
    check("dropout", Dropping::new(&device()), Dropping::forward);
    let normed = Normed::new(&device());
    // Statistics that are not the initial ones.
    for step in 0..3 {
        normed.forward(tensor([8, 3], step, &device()) + 1.0);
    }
    check("norm", normed, Normed::forward);
}

#[test]
fn parameters_and_outputs_are_without_autodiff() {
    let model = wrap(Mlp::new(&device()), 3).valid();
    assert!(!model.module().first.weight.val().is_autodiff());
    let output = model
        .forward(
            tensor([6, 3], 1, &Device::flex()),
            |replica: &Mlp, x: Tensor<2>| {
                assert!(!replica.first.weight.val().is_autodiff());
                replica.forward(x)
            },
        )
        .expect("forward works");
    assert!(!output.is_autodiff() && !output.is_tracked());
}

/// A batch that was made on the training device must not turn validation into training.
#[test]
fn a_batch_from_the_training_device_is_accepted_as_bare_burn_does() {
    let bare = Normed::new(&device());
    let x = tensor([6, 3], 1, &device());
    let expected = bare.valid().forward(x.clone());
    for replicas in [1, 3] {
        let output = wrap(bare.clone(), replicas)
            .valid()
            .forward(x.clone(), |replica: &Normed, x| replica.forward(x))
            .expect("forward works");
        assert_eq!(output.is_tracked(), expected.is_tracked());
        assert_values_close("outputs", &values(&output), &values(&expected), 1e-6);
    }
}

#[test]
fn training_goes_on_beside_validation() {
    let (mut calm, mut watched) = (wrap(Mlp::new(&device()), 3), wrap(Mlp::new(&device()), 3));
    let (mut calm_optim, mut watched_optim) = (sgd(), sgd());
    for step in 0..4 {
        let x = tensor([7, 3], step, &device());
        let (_, grads) = calm.train_step(x.clone(), loss).expect("the step works");
        calm = calm_optim.step(RATE, calm, grads);

        let (_, grads) = watched.train_step(x.clone(), loss).expect("the step works");
        watched = watched_optim.step(RATE, watched, grads);
        let output = watched
            .valid()
            .forward(x.clone().inner(), |replica: &Mlp, x| replica.forward(x))
            .expect("forward works");
        let bare = watched.module().forward(x);
        assert_values_close(
            "validation follows training",
            &values(&output),
            &values(&bare),
            1e-6,
        );
    }
    assert_eq!(bits(&parameters(&calm)), bits(&parameters(&watched)));
}

#[test]
fn a_validation_wrapper_trains_again() {
    let model = wrap(Mlp::new(&device()), 3);
    let x = tensor([7, 3], 1, &device());
    let (_, expected) = model.train_step(x.clone(), loss).expect("the step works");
    let expected = gradients(&model, &expected);

    let valid = model.valid();
    valid
        .forward(x.clone().inner(), |replica: &Mlp, x| replica.forward(x))
        .expect("forward works");
    let again = valid.train();
    let (_, grads) = again.train_step(x.clone(), loss).expect("it trains again");
    assert_close(
        "train_step",
        &gradients(&again, &grads),
        &expected,
        TOLERANCE,
    );
    let output = again
        .forward(x, |replica: &Mlp, x| replica.forward(x))
        .expect("forward works");
    let grads = GradientsParams::from_grads(output.powf_scalar(2.0).mean().backward(), &again);
    assert_close("forward", &gradients(&again, &grads), &expected, TOLERANCE);
}

#[test]
fn validation_keeps_devices_and_output_device() {
    let model = wrap(Mlp::new(&device()), 3);
    let valid = model.valid();
    assert_eq!(valid.replica_count(), 3);
    assert_eq!(valid.device_ids(), model.device_ids());
    assert_eq!(valid.output_device(), model.output_device());
    assert_eq!(valid.num_params(), model.num_params());
}
