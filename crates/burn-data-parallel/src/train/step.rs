//! The wrapper as a model of burn-train.

use std::time::Instant;

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use crate::data_parallel::DataParallel;
use crate::error::DataParallelError;
use crate::gather::Gather;
use crate::scatter::Scatter;
use crate::stats::PhaseStats;

/// Makes a wrapped model a model of burn-train's `Learner`.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::SgdConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn::train::{InferenceStep, Learner, RegressionOutput, TrainOutput, TrainStep};
/// use burn_data_parallel::{DataParallel, DeviceIds};
///
/// #[derive(Module, Debug)]
/// struct Model {
///     linear: Linear,
/// }
///
/// impl TrainStep for Model {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = RegressionOutput;
///
///     fn step(&self, batch: Self::Input) -> TrainOutput<RegressionOutput> {
///         let output = InferenceStep::step(self, batch);
///         TrainOutput::new(self, output.loss.backward(), output)
///     }
/// }
///
/// impl InferenceStep for Model {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = RegressionOutput;
///
///     fn step(&self, (inputs, targets): Self::Input) -> RegressionOutput {
///         let output = self.linear.forward(inputs);
///         let loss = (output.clone() - targets.clone()).powf_scalar(2.0).mean();
///         RegressionOutput::new(loss, output, targets)
///     }
/// }
///
/// let device = Device::flex().autodiff();
/// let model = Model { linear: LinearConfig::new(4, 1).init(&device) };
/// let model = DataParallel::new(model, DeviceIds::repeat(0, 2))?;
/// let mut learner = Learner::new(model, SgdConfig::new().init(), 0.1);
///
/// let batch = |rows| {
///     let random = |columns| Tensor::<2>::random([rows, columns], Distribution::Default, &device);
///     (random(4), random(1))
/// };
/// learner.lr_step();
/// let step = learner.train_step(batch(9)); // rows 0 to 4 on one replica, 5 to 8 on the other
/// assert_eq!(step.item.output.dims(), [9, 1]);
/// learner.optimizer_step(step.grads);
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
///
/// `SupervisedTraining` launches such a learner with its default strategy, which trains on the model's own device: here the
/// primary, from where each batch is spread. Metrics, schedulers, early stopping, gradient accumulation and checkpoints see one
/// step of one model. Do not give it `ExecutionStrategy::MultiDevice` or `DistributedDataParallel` as well, nor a single device
/// other than the primary: those move the model, and the next step then fails by its `Placement` error.
///
/// # What the loss must be
///
/// A mean over the rows of the batch, as the `mean()` of a loss over `[batch, ...]` is: shards are weighted by rows. For a mean
/// over other items (tokens that are not padding), or a sum, write the loop with
/// [`train_step`](DataParallel::train_step) and say the weight by [`Loss`](crate::Loss).
///
/// # Where batches are made
///
/// burn-train has batches made on the primary. A batcher that leaves them on the host (as [`Rows`](crate::Rows) of items, made
/// into tensors in the model's `step`) sends each shard to its own replica's device alone.
impl<M> TrainStep for DataParallel<M>
where
    M: Module + TrainStep + 'static,
    <M as TrainStep>::Input: Scatter,
    <M as TrainStep>::Output: Gather,
{
    type Input = <M as TrainStep>::Input;
    type Output = <M as TrainStep>::Output;

    /// The model's own step on every replica, each with its shard; the output is gathered, the gradients are reduced.
    ///
    /// # Panics
    ///
    /// With the text of the [`DataParallelError`], because burn-train's trait has no `Result`:
    /// [`train_step_with_grads`](DataParallel::train_step_with_grads) has, and
    /// [`DataParallelStrategy`](crate::DataParallelStrategy) returns it in `LearningResult::error`.
    fn step(&self, batch: Self::Input) -> TrainOutput<Self::Output> {
        self.learn(batch).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The model's own `optimize`, on the primary.
    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        self.changed(|module| module.optimize(optim, lr, grads))
    }

    /// The model's own `optimize_multi`, on the primary.
    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: MultiGradientsParams,
    ) -> Self {
        self.changed(|module| module.optimize_multi(optim, lr, grads))
    }
}

/// Makes a wrapped model valid for validation by the `Learner`, and for burn-train's `Evaluator`.
impl<M> InferenceStep for DataParallel<M>
where
    M: Module + InferenceStep + 'static,
    <M as InferenceStep>::Input: Scatter,
    <M as InferenceStep>::Output: Gather,
{
    type Input = <M as InferenceStep>::Input;
    type Output = <M as InferenceStep>::Output;

    /// The model's own step on every replica, each with its shard; the output is gathered.
    ///
    /// # Panics
    ///
    /// With the text of the [`DataParallelError`], because burn-train's trait has no `Result`:
    /// [`forward`](DataParallel::forward) has.
    fn step(&self, batch: Self::Input) -> Self::Output {
        self.infer(batch).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<M: Module + 'static> DataParallel<M> {
    /// The wrapper around the module that `optimize` makes of its own.
    ///
    /// A model's own `optimize` may change more than parameters (a counter that forward reads), so its replicas are made
    /// anew; `tests/learner/optimize.rs` has such a model.
    pub(super) fn changed(self, optimize: impl FnOnce(M) -> M) -> Self {
        let started = Instant::now();
        let changed = self.map_module(optimize);
        changed.shared.meter.optimizer(PhaseStats::since(started));
        changed
    }

    /// A training step of burn-train, on all replicas.
    pub(super) fn learn(
        &self,
        batch: <M as TrainStep>::Input,
    ) -> Result<TrainOutput<<M as TrainStep>::Output>, DataParallelError>
    where
        M: TrainStep,
        <M as TrainStep>::Input: Scatter,
        <M as TrainStep>::Output: Gather,
    {
        let (item, grads) = self.train_step_with_grads(batch, |replica, shard| {
            let TrainOutput { grads, item } = TrainStep::step(replica, shard);
            (grads, item)
        })?;
        Ok(TrainOutput { grads, item })
    }

    /// An inference step of burn-train, on all replicas.
    pub(super) fn infer(
        &self,
        batch: <M as InferenceStep>::Input,
    ) -> Result<<M as InferenceStep>::Output, DataParallelError>
    where
        M: InferenceStep,
        <M as InferenceStep>::Input: Scatter,
        <M as InferenceStep>::Output: Gather,
    {
        self.forward(batch, |replica, shard| InferenceStep::step(replica, shard))
    }
}
