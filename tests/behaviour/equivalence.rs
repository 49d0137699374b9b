//! N replicas give what one device gives on the whole batch: loss, outputs, gradients, and parameters after some steps.

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Int, Tensor};
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Loss, Mean, Scatter};

use crate::compare::{Values, assert_close, assert_values_close, gradients, parameters, values};
use crate::models::{ConvNet, Embedded, Mlp, Nested, device, ints, tensor};

pub const TOLERANCE: f64 = 1e-5;

/// A model, what it does, and the batches it is trained on.
pub struct Task<M, X> {
    pub model: M,
    pub forward: fn(&M, X) -> Tensor<2>,
    pub batches: Vec<(X, Tensor<2>)>,
}

/// What training gave, step by step.
pub struct Run {
    pub losses: Vec<f32>,
    pub outputs: Vec<Vec<f32>>,
    pub gradients: Vec<Values>,
    pub parameters: Values,
}

pub fn squared(output: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
    (output - target).powf_scalar(2.0).mean()
}

pub fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

pub fn adam() -> ModuleOptimizer {
    AdamConfig::new().init()
}

pub const RATE: f64 = 0.05;

impl<M: Module + 'static, X: Scatter + Clone + Send + 'static> Task<M, X> {
    pub fn bare(&self, mut optim: ModuleOptimizer) -> Run {
        let mut model = self.model.clone();
        self.each(|x, y, run| {
            let output = (self.forward)(&model, x);
            let loss = squared(output.clone(), y);
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            run.gradients.push(gradients(&model, &grads));
            model = optim.step(RATE, model.clone(), grads);
            run.parameters = parameters(&model);
            (loss, output)
        })
    }

    /// `train_step`, the loss computed per shard.
    pub fn whole_step(
        &self,
        ids: DeviceIds,
        mut optim: ModuleOptimizer,
    ) -> Result<Run, DataParallelError> {
        let mut model = DataParallel::new(self.model.clone(), ids)?;
        let forward = self.forward;
        Ok(self.each(|x, y, run| {
            let ((loss, output), grads) = model
                .train_step((x, y), move |replica, (x, y)| {
                    let output = forward(replica, x);
                    (squared(output.clone(), y), output)
                })
                .expect("the step works");
            run.gradients.push(gradients(&model, &grads));
            model = optim.step(RATE, model.clone(), grads);
            run.parameters = parameters(&model);
            (loss, output)
        }))
    }

    /// `forward`, then `backward` on a loss of the gathered output.
    pub fn gathered(
        &self,
        ids: DeviceIds,
        mut optim: ModuleOptimizer,
    ) -> Result<Run, DataParallelError> {
        let mut model = DataParallel::new(self.model.clone(), ids)?;
        let forward = self.forward;
        Ok(self.each(|x, y, run| {
            let output = model.forward(x, forward).expect("forward works");
            let loss = squared(output.clone(), y);
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            run.gradients.push(gradients(&model, &grads));
            model = optim.step(RATE, model.clone(), grads);
            run.parameters = parameters(&model);
            (loss, output)
        }))
    }

    fn each(&self, mut step: impl FnMut(X, Tensor<2>, &mut Run) -> (Tensor<1>, Tensor<2>)) -> Run {
        let mut run = Run {
            losses: Vec::new(),
            outputs: Vec::new(),
            gradients: Vec::new(),
            parameters: Values::new(),
        };
        for (x, y) in self.batches.clone() {
            let (loss, output) = step(x, y, &mut run);
            run.losses.push(loss.into_scalar());
            run.outputs.push(values(&output));
        }
        run
    }

    /// Both entrances with `replicas` replicas against `bare`; the largest difference.
    pub fn assert_equals_bare(
        &self,
        what: &str,
        replicas: usize,
        optim: fn() -> ModuleOptimizer,
        bare: &Run,
    ) -> f64 {
        let ids = || DeviceIds::repeat(0, replicas);
        let step = self
            .whole_step(ids(), optim())
            .expect("the wrapper is made");
        let gathered = self.gathered(ids(), optim()).expect("the wrapper is made");
        let step = assert_runs_close(&format!("{what}, train_step on {replicas}"), &step, bare);
        let gathered =
            assert_runs_close(&format!("{what}, forward on {replicas}"), &gathered, bare);
        step.max(gathered)
    }
}

pub fn assert_runs_close(what: &str, left: &Run, right: &Run) -> f64 {
    let mut largest = assert_values_close(
        &format!("{what}: losses"),
        &left.losses,
        &right.losses,
        TOLERANCE,
    );
    for (step, (left, right)) in left.outputs.iter().zip(&right.outputs).enumerate() {
        let what = format!("{what}: outputs of step {step}");
        largest = largest.max(assert_values_close(&what, left, right, TOLERANCE));
    }
    for (step, (left, right)) in left.gradients.iter().zip(&right.gradients).enumerate() {
        let what = format!("{what}: gradients of step {step}");
        largest = largest.max(assert_close(&what, left, right, TOLERANCE));
    }
    let what = format!("{what}: parameters");
    largest.max(assert_close(
        &what,
        &left.parameters,
        &right.parameters,
        TOLERANCE,
    ))
}

pub fn mlp(rows: usize, steps: usize) -> Task<Mlp, Tensor<2>> {
    let device = device();
    Task {
        model: Mlp::new(&device),
        forward: Mlp::forward,
        batches: (0..steps)
            .map(|step| {
                (
                    tensor([rows, 3], step, &device),
                    tensor([rows, 2], step + 50, &device),
                )
            })
            .collect(),
    }
}

/// A wrong split, a wrong weight or a wrong order shows at some size: every batch size meets several replica counts, and every
/// pair of sizes below 10 is there.
#[test]
fn every_batch_size_on_one_to_eight_replicas_equals_one_device() {
    let mut largest: f64 = 0.0;
    for rows in 1..=64 {
        let task = mlp(rows, 2);
        let bare = task.bare(sgd());
        let counts: Vec<usize> = if rows < 10 {
            (1..=8).collect()
        } else {
            vec![1 + rows % 8, 1 + (rows + 3) % 8]
        };
        for replicas in counts {
            largest =
                largest.max(task.assert_equals_bare(&format!("{rows} rows"), replicas, sgd, &bare));
        }
    }
    println!("largest difference, MLP and SGD: {largest:e}");
}

#[test]
fn adam_equals_one_device_after_ten_steps() {
    let mut largest: f64 = 0.0;
    for rows in [1, 2, 7, 9, 16] {
        let task = mlp(rows, 10);
        let bare = task.bare(adam());
        for replicas in [1, 2, 3, 8] {
            largest = largest.max(task.assert_equals_bare(
                &format!("{rows} rows"),
                replicas,
                adam,
                &bare,
            ));
        }
    }
    println!("largest difference, MLP and Adam: {largest:e}");
}

#[test]
fn a_conv_net_equals_one_device() {
    let device = device();
    let mut largest: f64 = 0.0;
    for rows in [1, 5, 8] {
        let task = Task {
            model: ConvNet::new(&device),
            forward: ConvNet::forward,
            batches: (0..4)
                .map(|step| {
                    (
                        tensor([rows, 1, 4, 4], step, &device),
                        tensor([rows, 2], step + 50, &device),
                    )
                })
                .collect(),
        };
        for optim in [sgd, adam] {
            let bare = task.bare(optim());
            for replicas in [2, 3, 4] {
                largest = largest.max(task.assert_equals_bare("conv net", replicas, optim, &bare));
            }
        }
    }
    println!("largest difference, conv net: {largest:e}");
}

#[test]
fn an_embedding_with_int_input_equals_one_device() {
    let device = device();
    let mut largest: f64 = 0.0;
    for rows in [1, 5, 8] {
        let task = Task {
            model: Embedded::new(&device),
            forward: Embedded::forward,
            batches: (0..4)
                .map(|step| {
                    (
                        ints([rows, 4], 6, &device),
                        tensor([rows, 2], step + 50, &device),
                    )
                })
                .collect(),
        };
        let bare = task.bare(sgd());
        for replicas in [2, 3] {
            largest = largest.max(task.assert_equals_bare("embedding", replicas, sgd, &bare));
        }
    }
    println!("largest difference, embedding: {largest:e}");
}

#[test]
fn nested_vec_option_and_tuple_modules_equal_one_device() {
    let device = device();
    let task = Task {
        model: Nested::new(&device),
        forward: Nested::forward,
        batches: (0..4)
            .map(|step| {
                (
                    tensor([7, 3], step, &device),
                    tensor([7, 2], step + 50, &device),
                )
            })
            .collect(),
    };
    let bare = task.bare(adam());
    for replicas in [1, 2, 3] {
        task.assert_equals_bare("nested", replicas, adam, &bare);
    }
}

/// A loss that is a sum must not be weighted: with weights by rows it would shrink with the number of replicas.
#[test]
fn a_sum_is_added_up_and_not_averaged() {
    let device = device();
    let model = Mlp::new(&device);
    for rows in [1, 3, 8] {
        let x = tensor([rows, 3], 1, &device);
        let bare = model.forward(x.clone()).powf_scalar(2.0).sum();
        let expected = gradients(
            &model,
            &GradientsParams::from_grads(bare.clone().backward(), &model),
        );
        for replicas in [1, 2, 3, 4] {
            let wrapped =
                DataParallel::new(model.clone(), DeviceIds::repeat(0, replicas)).expect("it wraps");
            let (loss, grads) = wrapped
                .train_step(x.clone(), |replica: &Mlp, x| {
                    Loss::sum(replica.forward(x).powf_scalar(2.0).sum())
                })
                .expect("the step works");
            let what = format!("sum over {rows} rows on {replicas}");
            assert_values_close(&what, &values(&loss), &values(&bare), TOLERANCE);
            assert_close(&what, &gradients(&wrapped, &grads), &expected, TOLERANCE);
        }
    }
}

/// The mean over the items that a mask keeps.
fn masked_mean(output: Tensor<2>, mask: Tensor<2>) -> (Tensor<1>, f64) {
    let items = mask.clone().sum().into_scalar::<f32>();
    // No items: 0 / 0, as a masked mean gives everywhere.
    let loss = (output.powf_scalar(2.0) * mask).sum() / f64::from(items);
    (loss, f64::from(items))
}

fn mask(rows: usize, kept: impl Fn(usize, usize) -> bool) -> Tensor<2> {
    let values: Vec<f32> = (0..rows * 2)
        .map(|i| f32::from(u8::from(kept(i / 2, i % 2))))
        .collect();
    Tensor::from_data(burn::tensor::TensorData::new(values, [rows, 2]), &device())
}

/// A weight by rows where items are asked for gives another mean as soon as shards keep unequal numbers of items.
/// A shard without items has no mean: what it returns beside a weight of 0 counts for nothing, be it NaN or no part of a graph.
#[test]
fn a_shard_without_items_counts_for_nothing() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
    let items = Tensor::<1>::from_floats([1.0, 1.0, 0.0, 0.0, 1.0, 0.0], &device());
    let step = |replica: &Mlp, (x, items): (Tensor<2>, Tensor<1>)| {
        let count = items.clone().sum().into_scalar::<f32>();
        let rows = replica.forward(x).sum_dim(1).squeeze_dim::<1>(1);
        let mean = (rows * items.clone()).sum().div_scalar(count);
        let loss = if count == 0.0 {
            Loss::mean_over(Tensor::zeros([1], &items.device()), 0.0)
        } else {
            Loss::mean_over(mean.clone(), f64::from(count))
        };
        (
            loss,
            (Mean(mean.clone().detach()), Mean(mean.into_scalar::<f32>())),
        )
    };
    let x = tensor([6, 3], 1, &device());
    let batch = (x.clone(), items.clone());
    let ((loss, (Mean(tensor), Mean(number))), grads) =
        model.train_step(batch, step).expect("it works");
    let bare = Mlp::new(&device());
    let rows = bare.forward(x).sum_dim(1).squeeze_dim::<1>(1);
    let expected = (rows * items).sum().div_scalar(3.0);
    assert_values_close("loss", &values(&loss), &values(&expected), TOLERANCE);
    assert_values_close("tensor", &values(&tensor), &values(&expected), TOLERANCE);
    assert_values_close("number", &[number], &values(&expected), TOLERANCE);
    let expected = GradientsParams::from_grads(expected.backward(), &bare);
    assert_close(
        "gradients",
        &gradients(&model, &grads),
        &gradients(&bare, &expected),
        TOLERANCE,
    );
}

#[test]
fn a_mean_over_items_equals_the_masked_mean_of_one_device() {
    let device = device();
    let model = Mlp::new(&device);
    for rows in [2, 5, 9] {
        let x = tensor([rows, 3], 2, &device);
        let mask = mask(rows, |row, column| (row * row + column) % 3 != 0);
        let (bare, _) = masked_mean(model.forward(x.clone()), mask.clone());
        let expected = gradients(
            &model,
            &GradientsParams::from_grads(bare.clone().backward(), &model),
        );
        for replicas in [1, 2, 3, 4] {
            let wrapped =
                DataParallel::new(model.clone(), DeviceIds::repeat(0, replicas)).expect("it wraps");
            let (loss, grads) = wrapped
                .train_step((x.clone(), mask.clone()), |replica: &Mlp, (x, mask)| {
                    let (loss, items) = masked_mean(replica.forward(x), mask);
                    Loss::mean_over(loss, items)
                })
                .expect("the step works");
            let what = format!("masked mean of {rows} rows on {replicas}");
            assert_values_close(&what, &values(&loss), &values(&bare), TOLERANCE);
            assert_close(&what, &gradients(&wrapped, &grads), &expected, TOLERANCE);
        }
    }
}

/// NaN times 0 is NaN: a shard without items must be left out, not multiplied by 0. Each shard is the empty one in turn.
#[test]
fn a_shard_without_items_adds_nothing_though_its_loss_is_nan() {
    let device = device();
    let model = Mlp::new(&device);
    let x = tensor([6, 3], 3, &device);
    for empty in 0..3 {
        let mask = mask(6, |row, _| row / 2 != empty);
        let (bare, _) = masked_mean(model.forward(x.clone()), mask.clone());
        let expected = gradients(
            &model,
            &GradientsParams::from_grads(bare.clone().backward(), &model),
        );
        let wrapped = DataParallel::new(model.clone(), DeviceIds::repeat(0, 3)).expect("it wraps");
        let (loss, grads) = wrapped
            .train_step((x.clone(), mask.clone()), |replica: &Mlp, (x, mask)| {
                let (loss, items) = masked_mean(replica.forward(x), mask);
                assert!(items > 0.0 || loss.clone().into_scalar::<f32>().is_nan());
                Loss::mean_over(loss, items)
            })
            .expect("the step works");
        let what = format!("shard {empty} is empty");
        assert_values_close(&what, &values(&loss), &values(&bare), TOLERANCE);
        assert_close(&what, &gradients(&wrapped, &grads), &expected, TOLERANCE);
    }
}

#[test]
fn weights_that_cannot_be_combined_are_errors() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 2)).expect("it wraps");
    let step = |weights: [f64; 2]| {
        model
            .train_step(tensor([4, 3], 1, &device()), move |replica: &Mlp, x| {
                // Row 0 tells the shards apart.
                let first = x.clone().slice([0..1, 0..1]).into_scalar::<f32>();
                let index = usize::from(first != crate::models::waves::wave(1, 1)[0]);
                Loss::mean_over(replica.forward(x).mean(), weights[index])
            })
            .map(|_| ())
    };
    assert!(step([1.0, 2.0]).is_ok());
    for weights in [
        [0.0, 0.0],
        [-1.0, 2.0],
        [f64::NAN, 1.0],
        [1.0, f64::INFINITY],
    ] {
        let error = step(weights).expect_err("these weights give no mean");
        assert!(
            matches!(error, DataParallelError::LossWeights { .. }),
            "{weights:?}: {error}"
        );
    }
}

/// Gradients of several calls before one step, the last group short, as on one device.
#[test]
fn accumulated_gradients_equal_one_device() {
    use burn::optim::GradientsAccumulator;
    let device = device();
    let batches: Vec<Tensor<2>> = (0..7).map(|i| tensor([5, 3], i, &device)).collect();
    let loss = |model: &Mlp, x: Tensor<2>| model.forward(x).powf_scalar(2.0).mean();
    for group in [1, 2, 3, 4] {
        let mut bare = Mlp::new(&device);
        let mut wrapped =
            DataParallel::new(bare.clone(), DeviceIds::repeat(0, 3)).expect("it wraps");
        let (mut bare_optim, mut optim) = (adam(), adam());
        for batches in batches.chunks(group) {
            let mut bare_sum = GradientsAccumulator::new();
            let mut sum = GradientsAccumulator::new();
            for x in batches {
                let grads = GradientsParams::from_grads(loss(&bare, x.clone()).backward(), &bare);
                bare_sum.accumulate(&bare, grads);
                let (_, grads) = wrapped.train_step(x.clone(), loss).expect("the step works");
                sum.accumulate(&wrapped, grads);
            }
            bare = bare_optim.step(RATE, bare, bare_sum.grads());
            wrapped = optim.step(RATE, wrapped, sum.grads());
        }
        assert_close(
            &format!("groups of {group}"),
            &parameters(&wrapped),
            &parameters(&bare),
            TOLERANCE,
        );
    }
}

/// Labels of another rank and kind than the input travel with it.
#[test]
fn cross_entropy_with_int_targets_equals_one_device() {
    use burn::nn::loss::CrossEntropyLossConfig;
    let device = device();
    let model = Mlp::new(&device);
    let (x, targets) = (tensor([9, 3], 4, &device), ints([9], 2, &device));
    let loss = |model: &Mlp, x: Tensor<2>, targets: Tensor<1, Int>| {
        let logits = model.forward(x);
        CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits, targets)
    };
    let bare = loss(&model, x.clone(), targets.clone());
    let expected = gradients(
        &model,
        &GradientsParams::from_grads(bare.clone().backward(), &model),
    );
    for replicas in [2, 4, 8] {
        let wrapped =
            DataParallel::new(model.clone(), DeviceIds::repeat(0, replicas)).expect("it wraps");
        let (found, grads) = wrapped
            .train_step(
                (x.clone(), targets.clone()),
                move |replica: &Mlp, (x, targets)| loss(replica, x, targets),
            )
            .expect("the step works");
        assert_values_close("cross entropy", &values(&found), &values(&bare), TOLERANCE);
        assert_close(
            "cross entropy",
            &gradients(&wrapped, &grads),
            &expected,
            TOLERANCE,
        );
    }
}
