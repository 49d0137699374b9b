//! Faults that the properties found, by kind: one parameter in two places that differ in something.

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Bool, Int, Tensor};
use burn_dp::{DataParallel, DeviceIds, PerReplica};

use crate::compare::{assert_close, gradients, largest, parameters};
use crate::models::{TwoFields, device, filled, linear, tensor};
use crate::training::TOLERANCE;

fn wrap<M: Module>(model: M) -> DataParallel<M> {
    DataParallel::new(model, DeviceIds::repeat(0, 2)).expect("it wraps")
}

/// The gradients of one step on two replicas are those of the bare model, by both entrances.
#[track_caller]
fn assert_gradients_equal_bare(what: &str, model: TwoFields) {
    let x = tensor([6, 3], 1, &device());
    let loss = |output: Tensor<2>| output.powf_scalar(2.0).mean();
    let grads = loss(model.forward(x.clone())).backward();
    let expected = gradients(&model, &GradientsParams::from_grads(grads, &model));
    let wrapped = wrap(model.clone());
    let output = wrapped.forward(x.clone(), TwoFields::forward);
    let grads = loss(output.expect("forward works")).backward();
    let grads = GradientsParams::from_grads(grads, &wrapped);
    let forward = largest(what, &gradients(&wrapped, &grads), &expected);
    let (_, grads) = wrapped
        .train_step(x, move |model: &TwoFields, x| loss(model.forward(x)))
        .unwrap_or_else(|error| panic!("{what}: forward {forward:e} off, train_step: {error}"));
    let step = largest(what, &gradients(&wrapped, &grads), &expected);
    assert!(
        forward <= TOLERANCE && step <= TOLERANCE,
        "{what}: forward {forward:e} off, train_step {step:e}"
    );
}

#[test]
fn both_places_trained() {
    assert_gradients_equal_bare("both places", TwoFields::new(&device()));
}

#[test]
fn the_second_place_frozen() {
    let TwoFields { encoder, decoder } = TwoFields::new(&device());
    let decoder = decoder.no_grad();
    assert_gradients_equal_bare("second frozen", TwoFields { encoder, decoder });
}

#[test]
fn the_first_place_frozen() {
    let TwoFields { encoder, decoder } = TwoFields::new(&device());
    let encoder = encoder.no_grad();
    assert_gradients_equal_bare("first frozen", TwoFields { encoder, decoder });
}

/// Loading a record makes a leaf of each place: they are equal, yet no longer tied.
#[test]
fn places_loaded_from_a_record() {
    let record = TwoFields::new(&device()).into_record();
    let loaded = TwoFields::new(&device()).load_record(record);
    assert_gradients_equal_bare("loaded", loaded);
}

/// Mapping does so too.
#[test]
fn places_that_were_mapped_to_equal_values() {
    struct Same;
    impl burn::module::ModuleMapper for Same {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|old| old.detach().require_grad())
        }
    }
    assert_gradients_equal_bare("mapped", TwoFields::new(&device()).map(&mut Same));
}

/// Burn's optimizer steps the first place alone, so that the other two are still one leaf in the second step.
#[test]
fn three_places_over_two_steps() {
    #[derive(Module, Debug)]
    struct Three {
        places: Vec<Linear>,
    }
    let loss = |model: &Three, x: Tensor<2>| {
        let output = model
            .places
            .iter()
            .fold(x, |x, place| place.forward(x).tanh());
        output.powf_scalar(2.0).mean()
    };
    let mut bare = Three {
        places: vec![filled(linear(3, 3, &device())); 3],
    };
    let mut model = wrap(bare.clone());
    let (mut optim, mut bare_optim) = (SgdConfig::new().init(), SgdConfig::new().init());
    for step in 0..2 {
        let x = tensor([6, 3], step, &device());
        let grads = loss(&bare, x.clone()).backward();
        let expected = GradientsParams::from_grads(grads, &bare);
        let (_, grads) = model.train_step(x, loss).expect("the step works");
        assert_close(
            &format!("step {step}"),
            &gradients(&model, &grads),
            &gradients(&bare, &expected),
            TOLERANCE,
        );
        model = optim.step(0.1, model, grads);
        bare = bare_optim.step(0.1, bare, expected);
    }
}

/// Int and bool parameters of one id in two places.
#[derive(Module, Debug)]
struct Indices {
    first: Param<Tensor<1, Int>>,
    second: Param<Tensor<1, Int>>,
    first_mask: Param<Tensor<1, Bool>>,
    second_mask: Param<Tensor<1, Bool>>,
    linear: Linear,
}

#[test]
fn int_and_bool_places_with_different_values() {
    let first = Param::initialized(ParamId::new(), Tensor::from_ints([0, 1], &device()));
    let first_mask = Param::initialized(
        ParamId::new(),
        Tensor::<1, Int>::from_ints([0, 1], &device()).equal_elem(1),
    );
    let model = Indices {
        second: first.clone().map(|value| value.add_scalar(5)),
        second_mask: first_mask.clone().map(|value| value.bool_not()),
        first,
        first_mask,
        linear: filled(linear(2, 2, &device())),
    };
    let seen = wrap(model.clone())
        .forward(
            tensor([4, 2], 1, &device()),
            |replica: &Indices, _: Tensor<2>| PerReplica(vec![parameters(replica)]),
        )
        .expect("forward works")
        .0;
    assert_eq!(seen, vec![parameters(&model); 2]);
}
