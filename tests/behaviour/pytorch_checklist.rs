//! What PyTorch's own tests of data parallelism check and no other file here does. `docs/pytorch-checklist.md` has all of them.

use std::collections::BTreeMap;

use burn::module::{Initializer, Module, ModuleMapper, Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BiLstm, BiLstmConfig, Linear};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, FloatDType, Tensor};
use burn_dp::{DataParallel, DeviceIds, PerReplica};

use crate::compare::{Values, assert_close, assert_values_close, gradients, parameters, values};
use crate::equivalence::TOLERANCE;
use crate::models::{Mlp, Nested, device, filled, linear, tensor};

fn wrap<M: Module>(model: M, replicas: usize) -> DataParallel<M> {
    DataParallel::new(model, DeviceIds::repeat(0, replicas)).expect("it wraps")
}

/// Parameters that belong to no layer; one takes a gradient and the other does not.
#[derive(Module, Debug)]
struct Scaled {
    scale: Param<Tensor<1>>,
    shift: Param<Tensor<1>>,
}

impl Scaled {
    fn new(scale: &[f32]) -> Self {
        let param = |values: &[f32]| {
            let tensor = Tensor::from_floats(values, &device());
            Param::initialized(ParamId::new(), tensor.require_grad())
        };
        Self {
            scale: param(scale),
            shift: param(&[0.5, -0.25, 1.0]).no_grad(),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x * self.scale.val().unsqueeze() + self.shift.val().unsqueeze()
    }
}

/// `test_data_parallel_buffers_requiring_grad`
#[test]
fn gradients_are_those_of_finite_differences() {
    let x = tensor([5, 3], 1, &device());
    let loss = |scale: &[f32]| {
        let output = wrap(Scaled::new(scale), 2).forward(x.clone(), Scaled::forward);
        output.expect("forward works").powf_scalar(2.0).sum()
    };
    let scale = [0.3, -0.7, 1.1];
    let model = wrap(Scaled::new(&scale), 2);
    let output = model.forward(x.clone(), Scaled::forward);
    let grads = output.expect("forward works").powf_scalar(2.0).sum();
    let grads = GradientsParams::from_grads(grads.backward(), &model);
    let found = gradients(&model, &grads);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["scale"]);
    for (column, found) in found["scale"].iter().enumerate() {
        // The loss is quadratic, for which a central difference is exact but for rounding.
        let at = |step: f32| {
            let mut scale = scale;
            scale[column] += step;
            f64::from(loss(&scale).into_scalar::<f32>())
        };
        let expected = (at(0.5) - at(-0.5)) as f32;
        assert_values_close("a gradient", &[*found], &[expected], 1e-4);
    }
}

/// `test_data_parallel_rnn`: inference first, then a step with a large rate.
#[test]
fn a_bidirectional_lstm_equals_one_device() {
    let model = filled(
        BiLstmConfig::new(3, 4, true)
            .with_initializer(Initializer::Zeros)
            .init(&device()),
    );
    let loss = |model: &BiLstm, x: Tensor<3>| model.forward(x, None).0.powf_scalar(2.0).mean();
    let wrapped = wrap(model.clone(), 2);
    wrapped
        .valid()
        .forward(
            tensor([2, 4, 3], 1, &device().inner()),
            |replica: &BiLstm, x: Tensor<3>| replica.forward(x, None).0,
        )
        .expect("forward works");

    let x = tensor([5, 4, 3], 2, &device());
    let expected = loss(&model, x.clone());
    let grads = GradientsParams::from_grads(expected.clone().backward(), &model);
    let bare = SgdConfig::new().init().step(10.0, model, grads);
    let (found, grads) = wrapped.train_step(x, loss).expect("the step works");
    let wrapped = SgdConfig::new().init().step(10.0, wrapped, grads);
    assert_values_close("loss", &values(&found), &values(&expected), TOLERANCE);
    assert_close(
        "parameters",
        &parameters(&wrapped),
        &parameters(&bare),
        TOLERANCE,
    );
}

/// `test_data_parallel_multiple_input`, `test_gather_*`, `test_scatter_*`: scatter and gather are part of the graph.
#[test]
fn gradients_reach_the_inputs() {
    let input = |seed| tensor([5, 3], seed, &device()).require_grad();
    let (first, second, third) = (input(1), input(2), tensor([5, 3], 3, &device()));
    let weights = tensor([5, 3], 4, &device());
    type Batch = (Tensor<2>, Tensor<2>, f64, Option<Tensor<2>>);
    let run = |(first, second, factor, third): Batch| {
        let product = first * second;
        let sum = match third {
            Some(third) => product + third,
            None => product,
        };
        sum * factor
    };
    for third in [None, Some(third)] {
        let batch = || (first.clone(), second.clone(), 1.5, third.clone());
        // A weight of its own for every element: a shard in the wrong place shows.
        let bare = run(batch());
        let grads = (bare.clone() * weights.clone()).sum().backward();
        let expected = [&first, &second].map(|x| values(&x.grad(&grads).expect("a gradient")));
        for replicas in 1..=4 {
            let model = wrap(Mlp::new(&device()), replicas);
            let output = model.forward(batch(), move |_: &Mlp, shard| run(shard));
            let output = output.expect("forward works");
            assert_values_close("output", &values(&output), &values(&bare), 0.0);
            let grads = (output * weights.clone()).sum().backward();
            let found = [&first, &second].map(|x| values(&x.grad(&grads).expect("a gradient")));
            assert_eq!(found, expected, "on {replicas}");
        }
    }
}

/// `test_scatter_*`: backward from one shard leaves the rows of the others without a gradient.
#[test]
fn a_gradient_of_one_shard_reaches_its_rows_alone() {
    let x = tensor([4, 3], 1, &device()).require_grad();
    let shards = wrap(Mlp::new(&device()), 2)
        .forward(x.clone(), |_: &Mlp, shard: Tensor<2>| {
            PerReplica(vec![shard])
        })
        .expect("forward works")
        .0;
    assert_eq!(shards.len(), 2);
    let grads = (shards[0].clone() * 2.0).sum().backward();
    let found = values(&x.grad(&grads).expect("a gradient"));
    assert_eq!(found, [[2.0; 6], [0.0; 6]].concat());
}

/// `test_data_parallel_nested_output`, `test_data_parallel_nested_input`
#[test]
fn nested_inputs_and_outputs_equal_one_device() {
    type Input = (Tensor<2>, (Tensor<2>, Tensor<2>), Tensor<2>);
    type Output = (
        Tensor<2>,
        (Tensor<2>, Tensor<2>, Vec<Tensor<2>>),
        BTreeMap<&'static str, Vec<Tensor<2>>>,
    );
    fn run((first, (second, third), last): Input) -> Output {
        let map = BTreeMap::from([("a", vec![third.clone()]), ("b", vec![last.clone().sin()])]);
        (
            second.clone(),
            (first.sin(), second.cos(), vec![third + 1.0]),
            map,
        )
    }
    fn flat((first, (second, third, list), map): Output) -> Vec<Vec<f32>> {
        let lists = list.into_iter().chain(map.into_values().flatten());
        let all = [first, second, third].into_iter().chain(lists);
        all.map(|x| values(&x)).collect()
    }
    let x = tensor([5, 3], 1, &device());
    let input = || {
        (
            x.clone().cos(),
            (x.clone().sin(), x.clone()),
            x.clone().sin(),
        )
    };
    let output = wrap(Mlp::new(&device()), 3).forward(input(), |_: &Mlp, shard: Input| run(shard));
    assert_eq!(flat(output.expect("forward works")), flat(run(input())));
}

/// `test_data_parallel_module_kwargs_only_empty_list`, `..._dict`, `..._tuple`
#[test]
fn empty_containers_beside_the_data_do_no_harm() {
    let x = tensor([5, 3], 1, &device());
    let model = Mlp::new(&device());
    let expected = values(&model.forward(x.clone()));
    let model = wrap(model, 3);
    macro_rules! check {
        ($unused:expr, $type:ty) => {{
            let output = model.forward(
                (x.clone(), $unused),
                |replica: &Mlp, (x, unused): (_, $type)| {
                    assert_eq!(format!("{unused:?}"), format!("{:?}", <$type>::default()));
                    replica.forward(x)
                },
            );
            let output = output.expect("forward works");
            assert_values_close(stringify!($type), &values(&output), &expected, TOLERANCE);
        }};
    }
    check!(Vec::new(), Vec<Tensor<2>>);
    check!(BTreeMap::new(), BTreeMap<String, Tensor<2>>);
    check!((), ());
    check!(None, Option<Tensor<2>>);
}

/// `test_data_parallel_function_deletion`: what backward needs outlives the wrapper, its replicas and their threads.
#[test]
fn backward_works_after_the_wrapper_is_gone() {
    let model = Mlp::new(&device());
    let x = tensor([5, 3], 1, &device());
    let expected = model.forward(x.clone()).powf_scalar(2.0).mean().backward();
    let expected = gradients(&model, &GradientsParams::from_grads(expected, &model));
    let wrapped = wrap(model.clone(), 3);
    let output = wrapped.forward(x, Mlp::forward).expect("forward works");
    drop(wrapped);
    let grads = output.powf_scalar(2.0).mean().backward();
    let found = gradients(&model, &GradientsParams::from_grads(grads, &model));
    assert_close("gradients", &found, &expected, TOLERANCE);
}

/// Casts every trainable parameter.
struct Cast(FloatDType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let dtype = self.0;
        param.map(|value| Tensor::from_inner(value.inner().cast(dtype)).require_grad())
    }
}

/// Compare each parameter's gradient by its own size: those of a mean are so small that an absolute tolerance for half precision
/// would hide anything.
#[track_caller]
fn assert_relatively_close(what: &str, left: &Values, right: &Values, tolerance: f64) {
    let scaled = |values: &Values| {
        let scaled = values.iter().map(|(path, values)| {
            let size = right[path].iter().fold(0.0f32, |size, x| size.max(x.abs()));
            assert!(size > 0.0, "{what}: {path} has no gradient");
            (path.clone(), values.iter().map(|x| x / size).collect())
        });
        scaled.collect::<Values>()
    };
    assert_close(what, &scaled(left), &scaled(right), tolerance);
}

/// Errors of rounding of one operation.
fn tolerance(dtype: FloatDType) -> f64 {
    match dtype {
        FloatDType::F64 => 1e-6,
        FloatDType::F16 => 4e-3,
        FloatDType::BF16 => 3e-2,
        _ => TOLERANCE,
    }
}

/// `test_data_parallel_module` for each type of floats: outputs and gradients keep it.
#[test]
fn every_float_type_equals_one_device() {
    for dtype in [
        FloatDType::F32,
        FloatDType::F64,
        FloatDType::F16,
        FloatDType::BF16,
    ] {
        let model = filled(linear(10, 5, &device())).map(&mut Cast(dtype));
        let x = tensor([20, 10], 1, &device()).cast(dtype);
        let loss = |model: &Linear, x: Tensor<2>| model.forward(x).powf_scalar(2.0).mean();
        let expected = loss(&model, x.clone());
        let grads = GradientsParams::from_grads(expected.clone().backward(), &model);
        let wrapped = wrap(model.clone(), 3);
        let output = wrapped.forward(x.clone(), |replica: &Linear, x| replica.forward(x));
        let output = output.expect("forward works");
        assert_eq!(output.dtype(), DType::from(dtype));
        let bare = values(&model.forward(x.clone()));
        let what = format!("{dtype:?}");
        assert_values_close(&what, &values(&output), &bare, tolerance(dtype));
        let (found, found_grads) = wrapped.train_step(x, loss).expect("the step works");
        assert_eq!(found.dtype(), DType::from(dtype));
        let weight = found_grads.get::<2>(model.weight.id).expect("a gradient");
        assert_eq!(weight.dtype(), DType::from(dtype));
        assert_values_close(&what, &values(&found), &values(&expected), tolerance(dtype));
        assert_relatively_close(
            &what,
            &gradients(&wrapped, &found_grads),
            &gradients(&model, &grads),
            tolerance(dtype),
        );
    }
}

/// `test_autocast`, `test_parallel_apply_autocast`: the closure says in which type a replica computes.
#[test]
fn a_closure_that_computes_in_half_precision_gives_half_precision() {
    let half = |replica: &Mlp, x: Tensor<2>| replica.forward(x).cast(FloatDType::F16);
    let x = tensor([5, 3], 1, &device());
    let model = wrap(Mlp::new(&device()), 3);
    let expected = half(model.module(), x.clone());
    let output = model.forward(x, half).expect("forward works");
    assert_eq!(output.dtype(), DType::F16);
    assert_values_close("output", &values(&output), &values(&expected), 1e-3);
    let grads = output.cast(FloatDType::F32).mean().backward();
    let grads = GradientsParams::from_grads(grads, &model);
    assert_eq!(grads.len(), 4, "gradients come through the cast");
}

/// Layers of different types of floats in one model.
#[derive(Module, Debug)]
struct Mixed {
    convs: Vec<Conv2d>,
}

impl Mixed {
    fn new(dtypes: &[FloatDType]) -> Self {
        let conv = |(seed, &dtype): (usize, &FloatDType)| {
            let config = Conv2dConfig::new([2 + seed, 3 + seed], [2, 2]);
            let config = config.with_initializer(Initializer::Zeros);
            filled(config.init(&device())).map(&mut Cast(dtype))
        };
        Self {
            convs: dtypes.iter().enumerate().map(conv).collect(),
        }
    }

    fn loss(&self, mut x: Tensor<4>) -> Tensor<1> {
        for conv in &self.convs {
            x = conv.forward(x.cast(conv.weight.val().dtype())).tanh();
        }
        x.cast(FloatDType::F32).powf_scalar(2.0).mean()
    }
}

/// `test_strided_grad_layout`: two steps, the second with gradients that start anew.
#[test]
fn a_conv_net_of_several_float_types_equals_one_device() {
    use FloatDType::{F16, F32, F64};
    for (dtypes, tolerance) in [
        ([F32, F32, F64], TOLERANCE),
        ([F64, F32, F64], TOLERANCE),
        ([F32, F16, F16], 4e-3),
        ([F16, F16, F16], 4e-3),
    ] {
        let mut bare = Mixed::new(&dtypes);
        let mut wrapped = wrap(bare.clone(), 3);
        let (mut optim, mut bare_optim) = (SgdConfig::new().init(), SgdConfig::new().init());
        for step in 0..2 {
            let what = format!("{dtypes:?}, step {step}");
            let x = tensor([8, 2, 5, 5], step, &device());
            let expected = bare.loss(x.clone());
            let grads = GradientsParams::from_grads(expected.clone().backward(), &bare);
            let (found, found_grads) = wrapped.train_step(x, Mixed::loss).expect("the step works");
            assert_values_close(&what, &values(&found), &values(&expected), tolerance);
            assert_relatively_close(
                &what,
                &gradients(&wrapped, &found_grads),
                &gradients(&bare, &grads),
                tolerance,
            );
            bare = bare_optim.step(0.1, bare, grads);
            wrapped = optim.step(0.1, wrapped, found_grads);
        }
    }
}

/// `test_save_replica_module`
#[test]
fn the_record_of_a_replica_is_that_of_the_model() {
    let bytes = |model: &Nested| {
        let record = model.clone().into_record();
        record.into_bytes().expect("it serializes").to_vec()
    };
    let model = wrap(Nested::new(&device()), 3);
    let expected = bytes(model.module());
    let x = tensor([6, 3], 1, &device());
    let saved = model.forward(x.clone(), move |replica: &Nested, _: Tensor<2>| {
        PerReplica(vec![bytes(replica)])
    });
    assert_eq!(saved.expect("forward works").0, vec![expected.clone(); 3]);
    let step = model.train_step(x, move |replica: &Nested, x: Tensor<2>| {
        (replica.forward(x).mean(), PerReplica(vec![bytes(replica)]))
    });
    let ((_, saved), _) = step.expect("the step works");
    assert_eq!(saved.0, vec![expected; 3]);
}

/// `test_parameter_list_dict_replica`
#[test]
fn parameters_in_a_list_are_whole_on_every_replica_and_train() {
    #[derive(Module, Debug)]
    struct Listed {
        list: Vec<Param<Tensor<1>>>,
    }
    let param = |seed| {
        let tensor = tensor([3], seed, &device()).require_grad();
        Param::initialized(ParamId::new(), tensor)
    };
    let model = wrap(
        Listed {
            list: vec![param(1), param(2)],
        },
        3,
    );
    let expected = parameters(&model);
    let check = move |replica: &Listed, x: Tensor<2>| {
        assert_eq!(parameters(replica), expected);
        let list = replica.list.iter().map(Param::val);
        assert!(
            list.clone()
                .all(|value| value.is_tracked() || value.is_require_grad())
        );
        list.fold(x, |x, value| x * value.unsqueeze())
    };
    let x = tensor([6, 3], 3, &device());
    let output = model
        .forward(x.clone(), check.clone())
        .expect("forward works");
    let grads = GradientsParams::from_grads(output.mean().backward(), &model);
    let (_, step) = model
        .train_step(x, move |replica: &Listed, x| check(replica, x).mean())
        .expect("the step works");
    assert_eq!(step.len(), 2);
    assert_close(
        "gradients",
        &gradients(&model, &step),
        &gradients(&model, &grads),
        TOLERANCE,
    );
}
