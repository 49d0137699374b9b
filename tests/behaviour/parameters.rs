//! Parameters of all sorts: int and bool, frozen, tied, unused, used by some shards only, and with adapters.

use burn::module::{Lora, Module, ModuleMapper, Param, ParamGroup};
use burn::nn::Linear;
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Device, Int, Tensor};
use burn_dp::{DataParallel, DeviceIds, PerReplica};

use crate::compare::{
    Values, assert_close, assert_values_close, bits, bool_values, gradients, int_values,
    parameters, values,
};
use crate::equivalence::{RATE, TOLERANCE, Task, adam, sgd};
use crate::models::{
    ConvNet, Embedded, Masked, Mlp, Nested, Normed, TwoFields, UsedTwice, device, filled, ints,
    linear, random_numbers, tensor,
};

fn batches(rows: usize, width: usize, steps: usize) -> Vec<(Tensor<2>, Tensor<2>)> {
    (0..steps)
        .map(|step| {
            (
                tensor([rows, 3], step, &device()),
                tensor([rows, width], step + 50, &device()),
            )
        })
        .collect()
}

fn wrap<M: Module>(model: M, replicas: usize) -> DataParallel<M> {
    DataParallel::new(model, DeviceIds::repeat(0, replicas)).expect("it wraps")
}

struct Flip;

impl ModuleMapper for Flip {
    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param.map(|value| value.mul_scalar(-1).add_scalar(2))
    }
    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        param.map(|value| value.bool_not())
    }
}

/// Replicas have the primary's int and bool values, after a change too.
#[test]
fn int_and_bool_parameters_follow_the_primary() {
    let seen = |model: &DataParallel<Masked>| {
        model
            .forward(
                tensor([6, 3], 1, &device()),
                |replica: &Masked, _: Tensor<2>| {
                    PerReplica(vec![(
                        int_values(&replica.columns.val()),
                        bool_values(&replica.keep.val()),
                    )])
                },
            )
            .expect("forward works")
            .0
    };
    let model = wrap(Masked::new(&device()), 3);
    assert_eq!(
        seen(&model),
        vec![(vec![2, 1, 0], vec![true, false, true]); 3]
    );
    let model = model.map(&mut Flip);
    assert_eq!(
        seen(&model),
        vec![(vec![0, 1, 2], vec![false, true, false]); 3]
    );
}

#[test]
fn a_model_with_int_and_bool_parameters_equals_one_device() {
    let task = Task {
        model: Masked::new(&device()),
        forward: Masked::forward,
        batches: batches(7, 2, 4),
    };
    let bare = task.bare(adam());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("int and bool", replicas, adam, &bare);
    }
}

/// Frozen parameters get no gradient and stay; the rest trains as on one device.
#[test]
fn a_frozen_part_gets_no_gradient_and_stays() {
    type Freeze = fn(Mlp) -> Mlp;
    let ways: [(&str, Freeze); 3] = [
        ("no_grad", |mut model| {
            model.first = model.first.no_grad();
            model
        }),
        ("freeze", |mut model| {
            model.first = model.first.freeze();
            model
        }),
        ("freeze_group", |model| {
            model.freeze_group(ParamGroup::from_paths(vec!["first.weight", "first.bias"]))
        }),
    ];
    for (what, freeze) in ways {
        let task = Task {
            model: freeze(Mlp::new(&device())),
            forward: Mlp::forward,
            batches: batches(7, 2, 3),
        };
        let bare = task.bare(adam());
        assert_eq!(bare.gradients[0].len(), 2, "{what}: the last layer alone");
        for replicas in [1, 2, 3] {
            task.assert_equals_bare(what, replicas, adam, &bare);
        }
        let before = parameters(&task.model);
        for path in ["first.weight", "first.bias"] {
            assert_eq!(
                bare.parameters[path], before[path],
                "{what}: {path} has moved"
            );
        }
    }
}

/// Paths have no prefix, so a group made for the bare model fits the wrapped one; and frozen replicas thaw again.
#[test]
fn freezing_and_thawing_through_the_wrapper_equals_bare() {
    let group = || ParamGroup::from_paths(vec!["first.weight", "first.bias"]);
    let mut bare = Mlp::new(&device());
    let mut model = wrap(bare.clone(), 3);
    let (mut bare_optim, mut optim) = (sgd(), sgd());
    for (step, (x, y)) in batches(7, 2, 9).into_iter().enumerate() {
        if step % 3 == 1 {
            (bare, model) = (bare.freeze_group(group()), model.freeze_group(group()));
        }
        if step % 3 == 2 {
            (bare, model) = (bare.unfreeze_group(group()), model.unfreeze_group(group()));
        }
        let loss = |model: &Mlp, x: Tensor<2>, y: Tensor<2>| {
            (model.forward(x) - y).powf_scalar(2.0).mean()
        };
        let expected =
            GradientsParams::from_grads(loss(&bare, x.clone(), y.clone()).backward(), &bare);
        let (_, grads) = model
            .train_step((x, y), move |replica: &Mlp, (x, y)| loss(replica, x, y))
            .expect("the step works");
        let what = format!("step {step}");
        assert_close(
            &what,
            &gradients(&model, &grads),
            &gradients(&bare, &expected),
            TOLERANCE,
        );
        assert_eq!(grads.len(), if step % 3 == 1 { 2 } else { 4 }, "{what}");
        bare = bare_optim.step(RATE, bare, expected);
        model = optim.step(RATE, model, grads);
    }
    assert_close(
        "parameters",
        &parameters(&model),
        &parameters(&bare),
        TOLERANCE,
    );
}

/// A replica that was made while a parameter was frozen trains it as soon as the primary does, in every step and not only in the
/// first: with running statistics, a second step on the same parameters renews the statistics alone.
#[test]
fn a_thawed_parameter_trains_on_every_replica_in_every_step() {
    for path in ["first.weight", "first.bias", "norm.gamma"] {
        let group = || ParamGroup::from_paths(vec![path]);
        let model = wrap(Normed::new(&device()), 3);
        let x = || tensor([7, 3], 2, &device());
        let step = |replica: &Normed, x: Tensor<2>| replica.forward(x).powf_scalar(3.0).mean();
        let (_, grads) = model.train_step(x(), step).expect("it works");
        let expected = gradients(&model, &grads);
        let model = wrap(Normed::new(&device()), 3).freeze_group(group());
        let (_, grads) = model.train_step(x(), step).expect("it works");
        assert_eq!(grads.len(), expected.len() - 1, "{path}");
        let model = model.unfreeze_group(group());
        for count in 0..3 {
            let (_, grads) = model.train_step(x(), step).expect("it works");
            assert_close(
                &format!("{path}, step {count}"),
                &gradients(&model, &grads),
                &expected,
                TOLERANCE,
            );
        }
    }
}

#[test]
fn one_parameter_used_twice_equals_bare() {
    let task = Task {
        model: UsedTwice::new(&device()),
        forward: UsedTwice::forward,
        batches: batches(7, 3, 4),
    };
    let bare = task.bare(adam());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("used twice", replicas, adam, &bare);
    }
}

/// Two fields with one parameter: one step, before any optimizer has touched it.
#[test]
fn two_fields_with_one_parameter_have_the_gradient_of_both() {
    let task = Task {
        model: TwoFields::new(&device()),
        forward: TwoFields::forward,
        batches: batches(7, 3, 1),
    };
    let bare = task.bare(sgd());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("two fields", replicas, sgd, &bare);
    }
}

/// Burn's optimizer moves the first field alone, so the fields differ afterwards; replicas must be as the primary is.
#[test]
fn two_fields_with_one_parameter_equal_bare_over_several_steps() {
    let task = Task {
        model: TwoFields::new(&device()),
        forward: TwoFields::forward,
        batches: batches(7, 3, 3),
    };
    let bare = task.bare(sgd());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("two fields", replicas, sgd, &bare);
    }
}

#[derive(Module, Debug)]
struct WithUnused {
    used: Linear,
    unused: Linear,
}

#[test]
fn unused_parameters_are_as_on_one_device() {
    let model = filled(WithUnused {
        used: linear(3, 2, &device()),
        unused: linear(3, 2, &device()),
    });
    let task = Task {
        model,
        forward: |model, x| model.used.forward(x),
        batches: batches(7, 2, 3),
    };
    let bare = task.bare(adam());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("unused", replicas, adam, &bare);
    }
}

fn assert_all_change<M: Module + 'static>(
    what: &str,
    model: M,
    run: impl Fn(&DataParallel<M>, bool) -> GradientsParams,
) {
    for train_step in [true, false] {
        let model = wrap(model.clone(), 3);
        let before = parameters(&model);
        let grads = run(&model, train_step);
        let trainable = gradients(&model, &grads);
        assert!(!trainable.is_empty(), "{what}: no gradient at all");
        let after = parameters(&adam().step(RATE, model, grads));
        for (path, before) in before {
            if path.contains("running") || path == "columns" || path == "keep" {
                continue;
            }
            let same = before
                .iter()
                .zip(&after[&path])
                .all(|(before, after)| before == after);
            assert!(
                !same,
                "{what}: {path} did not change, train_step {train_step}"
            );
        }
    }
}

/// A replica that is trained instead of the primary "runs" and learns nothing.
#[test]
fn every_trainable_parameter_changes_after_one_step() {
    fn run<M: Module + 'static, X: burn_dp::Scatter + Clone + Send + 'static>(
        model: &DataParallel<M>,
        train_step: bool,
        x: X,
        forward: fn(&M, X) -> Tensor<2>,
    ) -> GradientsParams {
        let loss = |output: Tensor<2>| (output - 0.3).powf_scalar(2.0).mean();
        if train_step {
            let step = move |replica: &M, x: X| loss(forward(replica, x));
            model.train_step(x, step).expect("the step works").1
        } else {
            let output = model.forward(x, forward).expect("forward works");
            GradientsParams::from_grads(loss(output).backward(), model)
        }
    }
    let x = || tensor([9, 3], 1, &device());
    assert_all_change("MLP", Mlp::new(&device()), |model, step| {
        run(model, step, x(), Mlp::forward)
    });
    assert_all_change("nested", Nested::new(&device()), |model, step| {
        run(model, step, x(), Nested::forward)
    });
    assert_all_change("norm", Normed::new(&device()), |model, step| {
        run(model, step, x(), Normed::forward)
    });
    assert_all_change("masked", Masked::new(&device()), |model, step| {
        run(model, step, x(), Masked::forward)
    });
    assert_all_change("tied", UsedTwice::new(&device()), |model, step| {
        run(model, step, x(), UsedTwice::forward)
    });
    assert_all_change("conv net", ConvNet::new(&device()), |model, step| {
        run(
            model,
            step,
            tensor([9, 1, 4, 4], 1, &device()),
            ConvNet::forward,
        )
    });
    assert_all_change("embedding", Embedded::new(&device()), |model, step| {
        run(model, step, ints([9, 4], 6, &device()), Embedded::forward)
    });
}

/// Shards take different ways through the model: a parameter has the gradient of those that used it, whichever they are.
#[test]
fn parameters_that_only_some_shards_use_get_the_right_sum() {
    let model = Nested::new(&device());
    let x = tensor([5, 3], 1, &device());
    // By the number of rows: shards of 2, 2 and 1.
    let forward = |model: &Nested, x: Tensor<2>| {
        if x.dims()[0] == 1 {
            model.layers[0].forward(x)
        } else {
            model.layers[1].forward(x)
        }
    };
    let loss = move |model: &Nested, x: Tensor<2>| forward(model, x).powf_scalar(2.0).mean();
    let shards = [(0, 2), (2, 4), (4, 5)].map(|(start, end)| x.clone().slice([start..end]));
    let bare = shards
        .iter()
        .map(|shard| loss(&model, shard.clone()) * (shard.dims()[0] as f64 / 5.0))
        .reduce(|sum, part| sum + part)
        .expect("there are shards");
    let expected = gradients(
        &model,
        &GradientsParams::from_grads(bare.clone().backward(), &model),
    );
    assert_eq!(expected.len(), 4, "both layers are used");

    let wrapped = wrap(model, 3);
    let (found, grads) = wrapped.train_step(x.clone(), loss).expect("the step works");
    assert_values_close("loss", &values(&found), &values(&bare), TOLERANCE);
    assert_close(
        "train_step",
        &gradients(&wrapped, &grads),
        &expected,
        TOLERANCE,
    );
    let output = wrapped.forward(x, forward).expect("forward works");
    let grads = GradientsParams::from_grads(output.powf_scalar(2.0).mean().backward(), &wrapped);
    assert_close(
        "forward",
        &gradients(&wrapped, &grads),
        &expected,
        TOLERANCE,
    );
}

/// Base weights stay, adapters train, as on one device; attached before wrapping or through the wrapper.
#[test]
fn adapters_equal_bare() {
    let _random = random_numbers();
    let model = Mlp::new(&device()).apply_lora(Lora::new(2, 4.0));
    let task = Task {
        model,
        forward: Mlp::forward,
        batches: batches(7, 2, 4),
    };
    let bare = task.bare(sgd());
    assert_eq!(
        bare.gradients[0].len(),
        4,
        "two factors for each of two weights: {:?}",
        bare.gradients[0].keys()
    );
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("adapters", replicas, sgd, &bare);
    }

    let late = wrap(Mlp::new(&device()), 3);
    let x = tensor([7, 3], 1, &device());
    let loss = |model: &Mlp, x: Tensor<2>| model.forward(x).powf_scalar(2.0).mean();
    late.train_step(x.clone(), loss)
        .expect("a step before, so that replicas exist");
    let late = late.apply_lora(Lora::new(2, 4.0));
    let (_, grads) = late.train_step(x.clone(), loss).expect("the step works");
    let expected = GradientsParams::from_grads(loss(late.module(), x).backward(), late.module());
    assert_close(
        "adapters through the wrapper",
        &gradients(&late, &grads),
        &gradients(&late, &expected),
        TOLERANCE,
    );

    // Merged again: adapters are gone, outputs stay.
    let x = tensor([7, 3], 2, &device());
    let output = |model: &DataParallel<Mlp>| {
        let output = model.forward(x.clone(), |replica: &Mlp, x| replica.forward(x));
        values(&output.expect("forward works"))
    };
    let before = output(&late);
    assert_values_close("merged", &output(&late.materialize()), &before, TOLERANCE);
}

/// A lazy parameter is drawn when first read: all replicas must have one draw.
#[test]
fn lazily_drawn_parameters_are_the_same_on_every_replica() {
    let _random = random_numbers();
    let lazy = burn::nn::LinearConfig::new(3, 4).init(&device());
    let model = wrap(lazy, 4);
    let weights = model
        .forward(
            tensor([8, 3], 1, &device()),
            |replica: &Linear, _: Tensor<2>| PerReplica(vec![values(&replica.weight.val())]),
        )
        .expect("forward works")
        .0;
    assert_eq!(weights.len(), 4);
    assert!(weights.iter().all(|weight| *weight == weights[0]));
    assert_eq!(weights[0], values(&model.module().weight.val()));
}

struct Add(f64);

impl ModuleMapper for Add {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let add = self.0;
        param.map(|value| Tensor::from_inner(value.inner() + add).require_grad())
    }
}

/// However the primary is changed, replicas follow before the next step.
#[test]
fn replicas_follow_every_kind_of_change() {
    let x = tensor([6, 3], 1, &device());
    let check = |what: &str, model: DataParallel<Mlp>| -> DataParallel<Mlp> {
        let seen = model
            .forward(x.clone(), |replica: &Mlp, _: Tensor<2>| {
                PerReplica(vec![parameters(replica)])
            })
            .expect("forward works")
            .0;
        let expected: Vec<Values> = vec![parameters(model.module()); 3];
        assert_eq!(seen, expected, "{what}");
        let seen = model
            .train_step(x.clone(), |replica: &Mlp, x| {
                (
                    replica.forward(x).mean(),
                    PerReplica(vec![parameters(replica)]),
                )
            })
            .expect("the step works")
            .0
            .1;
        assert_eq!(seen.0, expected, "{what}");
        model
    };
    let model = check("new", wrap(Mlp::new(&device()), 3));
    let model = check("map", model.map(&mut Add(1.0)));
    let model = check(
        "map_module",
        model.map_module(|module| module.map(&mut Add(2.0))),
    );
    let model = check("fork", model.fork(&device()));
    let model = check("no_grad and back", model.no_grad().set_require_grad(true));
    let record = Mlp::new(&device()).map(&mut Add(3.0)).into_record();
    let model = check("load_record", model.load_record(record));
    let clone = model.clone();
    let changed = check("a clone changed", clone.map(&mut Add(4.0)));
    let model = check("the original beside it", model);
    assert_ne!(bits(&parameters(&changed)), bits(&parameters(&model)));
}

/// Burn's `to_device` leaves parameters that are no leaves, which "train" without learning: through the wrapper they must learn,
/// or be an error that says why.
#[test]
fn a_model_moved_with_to_device_learns_or_is_told() {
    let bare = Mlp::new(&device()).to_device(&Device::flex());
    let leaf = bare.first.weight.val().is_require_grad();
    for replicas in [1, 3] {
        let before_wrapping = DataParallel::new(bare.clone(), DeviceIds::repeat(0, replicas));
        let after_wrapping = wrap(Mlp::new(&device()), replicas).to_device(&Device::flex());
        for (what, model) in [
            ("before", before_wrapping.expect("it wraps")),
            ("after", after_wrapping),
        ] {
            let what = format!(
                "moved {what} wrapping, {replicas} replicas, Burn leaves it a leaf: {leaf}"
            );
            let result = model.train_step(tensor([6, 3], 1, &device()), |replica: &Mlp, x| {
                replica.forward(x).mean()
            });
            match result {
                Ok((_, grads)) => assert_eq!(grads.len(), 4, "{what}: it runs and learns nothing"),
                Err(error) => assert!(
                    error.to_string().contains("fork"),
                    "{what}: no word on the remedy: {error}"
                ),
            }
        }
    }
}
