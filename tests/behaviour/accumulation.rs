//! A group of micro-batches gives the gradients of one batch of all its rows, whatever the sizes and the last group's length.

use burn::module::Module;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Loss};

use crate::compare::{assert_close, bits, gradients, parameters, values};
use crate::failure::quiet;
use crate::models::{Mlp, Normed, device, tensor};

/// How a shard's loss counts.
#[derive(Clone, Copy, Debug)]
enum Weighting {
    Rows,
    /// Rows whose first value is above 0 count; there are none in some shards.
    Items,
    Sum,
}

fn loss(weighting: Weighting, net: &Mlp, x: Tensor<2>) -> Loss {
    let counted = x.clone().narrow(1, 0, 1).greater_elem(0.0).float();
    let rows = net.forward(x).powf_scalar(2.0).sum_dim(1);
    match weighting {
        Weighting::Rows => Loss::mean(rows.mean()),
        Weighting::Sum => Loss::sum(rows.sum()),
        Weighting::Items => {
            let items = counted.clone().sum().into_scalar::<f32>();
            Loss::mean_over((rows * counted).sum().div_scalar(items), f64::from(items))
        }
    }
}

const SIZES: [usize; 7] = [5, 8, 1, 5, 3, 2, 4];

fn batches() -> Vec<Tensor<2>> {
    let sizes = SIZES.iter().enumerate();
    sizes
        .map(|(seed, &rows)| tensor([rows, 3], 1 + seed, &device()))
        .collect()
}

#[test]
fn groups_of_any_length_equal_one_batch_of_their_rows() {
    for weighting in [Weighting::Rows, Weighting::Items, Weighting::Sum] {
        for replicas in [1, 2, 3, 6] {
            for every in [1, 3, 4, 7] {
                let mut bare = Mlp::new(&device());
                let mut model = DataParallel::new(bare.clone(), DeviceIds::repeat(0, replicas))
                    .expect("it wraps");
                let (mut optim, mut bare_optim) =
                    (SgdConfig::new().init(), SgdConfig::new().init());
                for micro_batches in batches().chunks(every) {
                    let mut group = model.accumulate();
                    for (index, batch) in micro_batches.iter().enumerate() {
                        assert_eq!((group.len(), group.is_empty()), (index, index == 0));
                        let step = move |net: &Mlp, x| loss(weighting, net, x);
                        let found = group.train_step(batch.clone(), step).expect("it works");
                        let alone = loss(weighting, &bare, batch.clone());
                        let difference = values(&found)[0] - values(alone.value())[0];
                        assert!(difference.abs() < 1e-5, "{weighting:?} {difference}");
                    }
                    let grads = group.finish().expect("it works");

                    let whole = loss(weighting, &bare, Tensor::cat(micro_batches.to_vec(), 0));
                    let expected = whole.value().clone().backward();
                    let expected = GradientsParams::from_grads(expected, &bare);
                    let what = format!("{weighting:?}, {replicas} replicas, groups of {every}");
                    let found = gradients(&model, &grads);
                    assert_close(&what, &found, &gradients(&bare, &expected), 1e-5);
                    model = optim.step(0.1, model, grads);
                    bare = bare_optim.step(0.1, bare, expected);
                }
                assert_close("parameters", &parameters(&model), &parameters(&bare), 1e-5);
            }
        }
    }
}

#[test]
fn a_group_of_one_is_a_step_to_the_bit() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
    for batch in batches() {
        let step = |net: &Mlp, x| net.forward(x).powf_scalar(2.0).mean();
        let mut group = model.accumulate();
        let loss = group.train_step(batch.clone(), step).expect("it works");
        let grads = group.finish().expect("it works");
        let (expected_loss, expected) = model.train_step(batch, step).expect("it works");
        assert_eq!(values(&loss), values(&expected_loss));
        let found = bits(&gradients(&model, &grads));
        assert_eq!(found, bits(&gradients(&model, &expected)));
    }
}

#[test]
fn a_step_that_fails_leaves_the_group_as_it_was() {
    quiet();
    let model =
        DataParallel::new(Normed::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
    let batch = |seed| tensor([5, 3], seed, &device());
    let step = |net: &Normed, x| net.forward(x).powf_scalar(2.0).mean();
    let run = |fails: bool| {
        let mut group = model.accumulate();
        group.train_step(batch(1), step).expect("it works");
        if fails {
            let before = bits(&parameters(&model.valid()));
            let fails = |_: &Normed, _: Tensor<2>| -> Tensor<1> { panic!("fails on purpose") };
            let error = group.train_step(batch(2), fails).expect_err("it fails");
            assert!(
                matches!(error, DataParallelError::Replica { .. }),
                "{error}"
            );
            assert_eq!(
                (group.len(), bits(&parameters(&model.valid()))),
                (1, before)
            );
        }
        group.train_step(batch(3), step).expect("it works");
        assert_eq!(group.len(), 2);
        bits(&gradients(&model, &group.finish().expect("it works")))
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_group_without_steps_has_no_gradients() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    assert!(model.accumulate().finish().expect("it works").is_empty());
}

#[test]
fn losses_of_different_kinds_in_one_group_are_an_error() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let mut group = model.accumulate();
    let step = |weighting| move |net: &Mlp, x| loss(weighting, net, x);
    let batch = || tensor([6, 3], 1, &device());
    group
        .train_step(batch(), step(Weighting::Rows))
        .expect("it works");
    let error = group.train_step(batch(), step(Weighting::Sum));
    let error = error.expect_err("a sum after a mean");
    assert!(
        matches!(error, DataParallelError::LossWeights { .. }),
        "{error}"
    );
    assert_eq!(group.len(), 1);
}
