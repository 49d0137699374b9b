//! `train_step`: forward and backward on every replica, gradients reduced onto the primary.

use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::apply::Applied;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase};
use crate::gather::Gather;
use crate::layout::Layout;
use crate::loss::{Loss, LossWeight, StepResult};
use crate::progress::Progress;
use crate::reduce::{Grads, Reduce};
use crate::scatter::Scatter;
use crate::slot::Slot;
use crate::snapshot::Link;
use crate::stats::PhaseStats;
use crate::weights::{gather_loss, shares, with_shares};

/// What one replica gives in a training step.
pub(crate) struct Trained<O> {
    /// One value, detached; none for a loss of weight 0.
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) weight: LossWeight,
    pub(crate) grads: Grads,
    pub(crate) output: O,
}

/// What all replicas gave in a training step, but for the reduction of the gradients.
pub(crate) struct Combined<G> {
    pub(crate) gathered: G,
    pub(crate) grads: Vec<Grads>,
    pub(crate) weights: Vec<LossWeight>,
    /// What is left to multiply the sum of the gradients by.
    pub(crate) factor: f64,
}

impl<M: Module + 'static> DataParallel<M> {
    /// Split `batch`, run forward and backward on every replica side by side, and reduce the gradients onto the primary.
    ///
    /// The closure returns the loss of its shard, alone or with an output ([`StepResult`] has the forms). Losses that are
    /// means are weighted by the shard's rows, or as [`Loss`] says, so that loss and gradients are those of one device on the
    /// whole batch. Then step the optimizer as always: `let model = optim.step(lr, model, grads)`.
    ///
    /// ```
    /// use burn::nn::{Linear, LinearConfig, loss::CrossEntropyLossConfig};
    /// use burn::optim::SgdConfig;
    /// use burn::tensor::{Device, Distribution, Int, Tensor};
    /// use burn_data_parallel::{DataParallel, DeviceIds};
    ///
    /// let device = Device::flex().autodiff();
    /// let model = DataParallel::new(LinearConfig::new(4, 3).init(&device), DeviceIds::repeat(0, 2))?;
    /// let mut optim = SgdConfig::new().init();
    ///
    /// let images = Tensor::<2>::random([5, 4], Distribution::Default, &device);
    /// let targets = Tensor::<1, Int>::from_ints([0, 1, 2, 0, 1], &device);
    /// let ((loss, logits), grads) =
    ///     model.train_step((images, targets), |replica: &Linear, (images, targets)| {
    ///         let logits = replica.forward(images);
    ///         let loss = CrossEntropyLossConfig::new().init(&logits.device());
    ///         (loss.forward(logits.clone(), targets), logits)
    ///     })?;
    /// assert_eq!(loss.dims(), [1]);
    /// assert_eq!(logits.dims(), [5, 3]);
    /// let model = optim.step(0.1, model, grads);
    /// # let _ = model;
    /// # Ok::<(), burn_data_parallel::DataParallelError>(())
    /// ```
    ///
    /// # Shapes
    ///
    /// As for [`forward`](Self::forward); the loss is `[1]`.
    ///
    /// # Errors
    ///
    /// Those of [`forward`](Self::forward), and `LossShape`, `NotTrainable`, `LossWeights`. The model is as before the step.
    pub fn train_step<B, S, F>(
        &self,
        batch: B,
        step: F,
    ) -> Result<(S::Gathered, GradientsParams), DataParallelError>
    where
        B: Scatter + Send + 'static,
        S: StepResult,
        F: Fn(&M, B) -> S + Send + Sync + 'static,
    {
        self.step(
            "train_step",
            batch,
            |_| Link::Leaf,
            move |slot, replica, shard| {
                train(slot, replica, Scaling::Step, || step(replica, shard))
            },
            |model, applied| {
                let combined = model.combine::<S>(applied)?;
                let grads = model.reduce(combined.grads, combined.factor, applied)?;
                Ok((combined.gathered, grads))
            },
        )
    }

    /// [`train_step`](Self::train_step) for a closure that runs backward itself and returns the gradients of its shard beside
    /// an output, as burn-train's `TrainStep` does. The loss is taken to be a mean over the shard's rows.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn train_step_with_grads<B, O, F>(
        &self,
        batch: B,
        step: F,
    ) -> Result<(O, GradientsParams), DataParallelError>
    where
        B: Scatter + Send + 'static,
        O: Gather + Send + 'static,
        F: Fn(&M, B) -> (GradientsParams, O) + Send + Sync + 'static,
    {
        self.step(
            "train_step_with_grads",
            batch,
            |_| Link::Leaf,
            move |slot, replica, shard| {
                let (grads, output) = slot.in_turn(|| step(replica, shard));
                let grads = Grads::of(replica, grads, slot.share, slot.layout.as_deref());
                Ok((grads, output))
            },
            |model, applied| {
                let results = std::mem::take(&mut applied.results);
                let (grads, outputs) = results.into_iter().unzip();
                let grads = model.reduce(grads, 1.0, applied)?;
                Ok((
                    model.gather(outputs, &applied.plan.clone(), applied)?,
                    grads,
                ))
            },
        )
    }

    pub(crate) fn reduce<T>(
        &self,
        grads: Vec<Grads>,
        factor: f64,
        applied: &mut Applied<T>,
    ) -> Result<GradientsParams, DataParallelError> {
        let (layout, progress) = (applied.layout.as_deref(), &applied.progress);
        let (grads, cost) = self.reduce_grads(grads, factor, layout, progress)?;
        applied.stats.reduce = cost;
        Ok(grads)
    }

    /// Sum gradients onto the primary, and multiply by `factor`.
    pub(crate) fn reduce_grads(
        &self,
        grads: Vec<Grads>,
        factor: f64,
        layout: Option<&Layout>,
        progress: &Progress,
    ) -> Result<(GradientsParams, PhaseStats), DataParallelError> {
        let (started, traffic) = (Instant::now(), self.shared.traffic());
        let reduce = Reduce {
            devices: &self.shared.devices,
            layout,
            traffic: &traffic,
            progress,
        };
        let grads = self.guarded(progress, Phase::Reduce, || {
            reduce.onto_primary(&self.module, grads, factor)
        })?;
        Ok((grads, traffic.phase(started)))
    }

    /// Put losses and outputs together.
    pub(crate) fn combine<S: StepResult>(
        &self,
        applied: &mut Applied<Trained<S::Output>>,
    ) -> Result<Combined<S::Gathered>, DataParallelError> {
        let results = std::mem::take(&mut applied.results);
        let plan = applied.plan.clone();
        let weights: Vec<LossWeight> = results.iter().map(|result| result.weight).collect();
        let (shares, factor) = shares(&weights, &plan.weights, applied.total_rows)?;
        let (mut losses, mut grads, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        for (result, &share) in results.into_iter().zip(&shares) {
            losses.extend(result.loss.map(|loss| (loss, share)));
            grads.push(result.grads);
            outputs.push(result.output);
        }
        let loss = self.guarded(&applied.progress, Phase::Gather, || {
            gather_loss(losses, &plan)
        })??;
        let output = self.gather(outputs, &with_shares(&plan, &weights, shares), applied)?;
        Ok(Combined {
            gathered: S::from_gathered(loss, output),
            grads,
            weights,
            factor,
        })
    }
}

/// By what the loss of a shard is multiplied before backward.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scaling {
    /// By its share in the batch.
    Step,
    /// By its rows or items over those of the first batch of a group, or of this batch where it is the first.
    Group(Option<f64>),
}

impl Scaling {
    fn of(self, weight: LossWeight, slot: &Slot) -> f64 {
        match (weight, self) {
            (LossWeight::Sum, _) => 1.0,
            (LossWeight::Rows, Scaling::Step) => slot.share,
            (LossWeight::Rows, Scaling::Group(rows)) => {
                slot.share * (slot.total_rows / rows.unwrap_or(slot.total_rows))
            }
            // One replica alone has the numbers of the bare model to the bit.
            (LossWeight::Items(_), Scaling::Step) if slot.share == 1.0 => 1.0,
            (LossWeight::Items(items), Scaling::Step) => items / slot.total_rows,
            (LossWeight::Items(items), Scaling::Group(rows)) => {
                items / rows.unwrap_or(slot.total_rows)
            }
        }
    }
}

/// One replica's forward and backward.
pub(crate) fn train<M: Module, S: StepResult>(
    slot: &Slot,
    replica: &M,
    scaling: Scaling,
    step: impl FnOnce() -> S,
) -> Result<Trained<S::Output>, DataParallelError> {
    let (loss, output) = slot
        .in_turn(step)
        .into_parts()
        .map_err(|source| slot.failed(source))?;
    let Loss { value, weight } = loss;
    let layout = slot.layout.as_deref();
    let elements = value.shape().num_elements();
    if elements != 1 {
        return Err(DataParallelError::LossShape {
            replica: slot.replica,
            elements,
        });
    }
    if weight == LossWeight::Items(0.0) {
        // The mean of no items is NaN, and NaN times 0 is NaN: it must not reach the sum.
        return Ok(Trained {
            loss: None,
            weight,
            grads: Grads::of(replica, GradientsParams::new(), 1.0, layout),
            output,
        });
    }
    if !value.is_tracked() {
        return Err(DataParallelError::NotTrainable {
            replica: slot.replica,
            device: slot.device_name(),
        });
    }
    // Scaling the loss is one multiplication of one value; scaling the gradients would be one of each.
    let scale = scaling.of(weight, slot);
    let scaled = if scale == 1.0 {
        value.clone()
    } else {
        value.clone().mul_scalar(scale)
    };
    slot.progress.enter(slot.replica, Phase::Backward);
    let grads = GradientsParams::from_grads(scaled.backward(), replica);
    let grads = Grads::of(replica, grads, 1.0, layout);
    Ok(Trained {
        loss: Some(value.detach()),
        weight,
        grads,
        output,
    })
}
