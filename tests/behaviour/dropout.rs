//! Random numbers: masks differ between replicas, a seed repeats the run, and validation draws none.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Tensor};
use burn_dp::{DataParallel, DataParallelConfig, DeviceIds, PerReplica, RandomOrder};

use crate::compare::{assert_values_close, bits, gradients, parameters, values};
use crate::equivalence::{RATE, adam};
use crate::models::{Dropping, Mlp, device, random_numbers, tensor};

fn wrapped(replicas: usize) -> DataParallel<Dropping> {
    DataParallel::new(Dropping::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

/// Which outputs are kept, by replica; every shard has the same rows.
fn masks(model: &DataParallel<Dropping>, replicas: usize) -> Vec<Vec<bool>> {
    let shard = tensor([4, 3], 1, &device());
    let batch = Tensor::cat(vec![shard; replicas], 0);
    model
        .forward(batch, |replica: &Dropping, x| {
            let kept = values(&replica.forward(x))
                .iter()
                .map(|&x| x != 0.0)
                .collect();
            PerReplica(vec![kept])
        })
        .expect("forward works")
        .0
}

#[test]
fn masks_differ_between_replicas_and_between_steps() {
    let _random = random_numbers();
    let model = wrapped(4);
    model.seed_all(7);
    let mut seen = masks(&model, 4);
    seen.extend(masks(&model, 4));
    for (index, mask) in seen.iter().enumerate() {
        let kept = mask.iter().filter(|&&kept| kept).count();
        assert!(
            (8..=56).contains(&kept),
            "{kept} of 64 kept with probability 0.5"
        );
        assert!(
            !seen[..index].contains(mask),
            "mask {index} is one of those before"
        );
    }
}

type Bits = BTreeMap<String, Vec<u32>>;

fn run(seed: u64, train_step: bool) -> (Vec<Vec<f32>>, Vec<Bits>, Bits) {
    let mut model = wrapped(4);
    let mut optim = adam();
    model.seed_all(seed);
    let (mut losses, mut all) = (Vec::new(), Vec::new());
    for step in 0..3 {
        let x = tensor([10, 3], step, &device());
        let (loss, grads) = if train_step {
            model
                .train_step(x, |replica: &Dropping, x| {
                    replica.forward(x).powf_scalar(2.0).mean()
                })
                .expect("the step works")
        } else {
            let output = model
                .forward(x, |replica: &Dropping, x| replica.forward(x))
                .expect("forward works");
            let loss = output.powf_scalar(2.0).mean();
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            (loss, grads)
        };
        losses.push(values(&loss));
        all.push(bits(&gradients(&model, &grads)));
        model = optim.step(RATE, model, grads);
    }
    (losses, all, bits(&parameters(&model)))
}

#[test]
fn the_same_seed_repeats_a_run_bit_for_bit() {
    let _random = random_numbers();
    for train_step in [true, false] {
        let first = run(42, train_step);
        for attempt in 0..10 {
            assert_eq!(
                first,
                run(42, train_step),
                "attempt {attempt}, train_step {train_step}"
            );
        }
        assert_ne!(first, run(43, train_step), "another seed is another run");
    }
}

/// One replica draws what bare Burn draws.
#[test]
fn one_replica_with_a_seed_equals_bare_burn_with_it() {
    let _random = random_numbers();
    let x = tensor([6, 3], 1, &device());
    let model = wrapped(1);
    model.seed_all(5);
    let output = model
        .forward(x.clone(), |replica: &Dropping, x| replica.forward(x))
        .expect("forward works");
    Device::flex().seed(5);
    assert_eq!(values(&output), values(&model.module().forward(x)));
}

/// The replicas' masks are those that one device draws shard by shard, so the whole step has a bare equivalent.
#[test]
fn a_seeded_step_equals_shards_in_turn_on_one_device() {
    let _random = random_numbers();
    let x = tensor([10, 3], 1, &device());
    let model = wrapped(4);
    model.seed_all(5);
    let output = model
        .forward(x.clone(), |replica: &Dropping, x| replica.forward(x))
        .expect("forward works");
    Device::flex().seed(5);
    let parts = [(0, 3), (3, 6), (6, 8), (8, 10)]
        .map(|(start, end)| model.module().forward(x.clone().slice([start..end])));
    assert_eq!(values(&output), values(&Tensor::cat(parts.to_vec(), 0)));
}

#[test]
fn validation_drops_nothing_and_equals_bare() {
    for replicas in 1..=4 {
        let model = wrapped(replicas).valid();
        let x = tensor([7, 3], 1, &Device::flex());
        let output = model
            .forward(x.clone(), |replica: &Dropping, x| replica.forward(x))
            .expect("forward works");
        let bare = model.module().first.forward(x);
        assert_values_close("validation", &values(&output), &values(&bare), 1e-6);
    }
}

#[test]
fn a_frozen_dropout_drops_nothing_on_any_replica() {
    let _random = random_numbers();
    let model = wrapped(3);
    masks(&model, 3);
    let model = model.map_module(|mut module| {
        module.dropout = module.dropout.freeze();
        module
    });
    for mask in masks(&model, 3) {
        assert!(mask.iter().all(|&kept| kept), "{mask:?}");
    }
}

/// `freeze` and `unfreeze` through the wrapper itself reach replicas that exist already.
#[test]
fn freezing_through_the_wrapper_reaches_existing_replicas() {
    let _random = random_numbers();
    let model = wrapped(3);
    let all_kept =
        |model: &DataParallel<Dropping>| masks(model, 3).concat().iter().all(|&kept| kept);
    assert!(!all_kept(&model));
    let model = model.freeze();
    assert!(all_kept(&model));
    let model = model.unfreeze();
    assert!(!all_kept(&model));
    for mask in masks(&model, 3) {
        assert!(mask.contains(&false), "a replica is still frozen");
    }
}

fn noisy(order: RandomOrder) -> Vec<f32> {
    let model = DataParallelConfig::new()
        .with_random_order(order)
        .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 4))
        .expect("it wraps");
    model.seed_all(3);
    let output = model
        .forward(
            tensor([10, 3], 1, &device()),
            |replica: &Mlp, x: Tensor<2>| {
                let noise = Tensor::random(x.dims(), Distribution::Default, &x.device());
                replica.forward(x + noise)
            },
        )
        .expect("forward works");
    values(&output)
}

/// A closure that draws numbers itself is not seen by `Auto`; `InTurn` is for it.
#[test]
fn in_turn_repeats_closures_that_draw_numbers_themselves() {
    let _random = random_numbers();
    let first = noisy(RandomOrder::InTurn);
    for _ in 0..10 {
        assert_eq!(first, noisy(RandomOrder::InTurn));
    }
    // Free runs too; what it draws is up to the scheduler.
    assert_eq!(noisy(RandomOrder::Free).len(), first.len());
}
