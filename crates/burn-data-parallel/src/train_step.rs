//! `train_step`: forward and backward on every replica, gradients reduced onto the primary.

use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::apply::Applied;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase};
use crate::gather::{Gather, GatherPlan, Mean};
use crate::loss::{Loss, LossWeight, StepResult};
use crate::reduce::{Grads, Reduce};
use crate::scatter::Scatter;
use crate::slot::Slot;
use crate::snapshot::Link;

/// What one replica gives in a training step.
pub(crate) struct Trained<O> {
    /// One value, detached; none for a loss of weight 0.
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) weight: LossWeight,
    pub(crate) grads: Grads,
    pub(crate) output: O,
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
            move |slot, replica, shard| train(slot, replica, || step(replica, shard)),
            |model, applied| model.combine::<S>(applied),
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

    fn reduce<T>(
        &self,
        grads: Vec<Grads>,
        factor: f64,
        applied: &mut Applied<T>,
    ) -> Result<GradientsParams, DataParallelError> {
        let (started, traffic) = (Instant::now(), self.shared.traffic());
        let reduce = Reduce {
            devices: &self.shared.devices,
            layout: applied.layout.as_deref(),
            traffic: &traffic,
            progress: &applied.progress,
        };
        let grads = self.guarded(&applied.progress, Phase::Reduce, || {
            reduce.onto_primary(&self.module, grads, factor)
        })?;
        applied.stats.reduce = traffic.phase(started);
        Ok(grads)
    }

    fn combine<S: StepResult>(
        &self,
        applied: &mut Applied<Trained<S::Output>>,
    ) -> Result<(S::Gathered, GradientsParams), DataParallelError> {
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
        let grads = self.reduce(grads, factor, applied)?;
        let loss = self.guarded(&applied.progress, Phase::Gather, || {
            gather_loss(losses, &plan)
        })??;
        let output = self.gather(outputs, &with_shares(&plan, &weights, shares), applied)?;
        Ok((S::from_gathered(loss, output), grads))
    }
}

/// One replica's forward and backward.
fn train<M: Module, S: StepResult>(
    slot: &Slot,
    replica: &M,
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
    if !value.is_tracked() {
        return Err(DataParallelError::NotTrainable {
            replica: slot.replica,
            device: slot.device_name(),
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
    // Scaling the loss is one multiplication of one value; scaling the gradients would be one of each.
    let scale = match weight {
        LossWeight::Rows => slot.share,
        LossWeight::Items(items) if slot.share < 1.0 => items / slot.total_rows,
        LossWeight::Items(_) | LossWeight::Sum => 1.0,
    };
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

/// The share of each replica's loss in the whole loss, and what is left to multiply the sum of scaled gradients by.
fn shares(
    weights: &[LossWeight],
    by_rows: &[f64],
    total_rows: f64,
) -> Result<(Vec<f64>, f64), DataParallelError> {
    let items: Vec<f64> = weights
        .iter()
        .filter_map(|weight| match weight {
            LossWeight::Items(items) => Some(*items),
            _ => None,
        })
        .collect();
    if weights.iter().all(|weight| *weight == LossWeight::Rows) {
        return Ok((by_rows.to_vec(), 1.0));
    }
    if weights.iter().all(|weight| *weight == LossWeight::Sum) {
        return Ok((vec![1.0; weights.len()], 1.0));
    }
    if items.len() != weights.len() {
        return Err(bad_weights(format!(
            "some are sums and others means: {weights:?}; return the same kind from every replica"
        )));
    }
    let total: f64 = items.iter().sum();
    if items.iter().any(|&items| !items.is_finite() || items < 0.0) {
        return Err(bad_weights(format!(
            "the weights {items:?} are not all finite and at least 0"
        )));
    }
    if total == 0.0 {
        return Err(bad_weights(
            "every replica's weight is 0, so the batch has no items to take a mean of; skip such a batch".into(),
        ));
    }
    let factor = if items.len() == 1 {
        1.0
    } else {
        total_rows / total
    };
    Ok((items.iter().map(|items| items / total).collect(), factor))
}

fn bad_weights(detail: String) -> DataParallelError {
    DataParallelError::LossWeights { detail }
}

fn gather_loss(
    losses: Vec<(Tensor<1>, f64)>,
    plan: &GatherPlan,
) -> Result<Tensor<1>, DataParallelError> {
    let (losses, weights) = losses
        .into_iter()
        .map(|(loss, share)| (Mean(loss), share))
        .unzip();
    let plan = GatherPlan {
        weights,
        ..plan.clone()
    };
    Mean::gather_shards(losses, &plan).map(|Mean(loss)| loss)
}

/// Means in the output are weighted as the loss is, where the loss has weights of its own.
fn with_shares(plan: &GatherPlan, weights: &[LossWeight], shares: Vec<f64>) -> GatherPlan {
    let mut plan = plan.clone();
    if weights
        .iter()
        .any(|weight| matches!(weight, LossWeight::Items(_)))
    {
        plan.weights = shares;
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_items_sum_to_one_and_factor_undoes_the_scaling() {
        let weights = [LossWeight::Items(6.0), LossWeight::Items(2.0)];
        let (shares, factor) = shares(&weights, &[0.5, 0.5], 4.0).unwrap();
        assert_eq!(shares, [0.75, 0.25]);
        // A gradient g of replica 0 was scaled by items / rows = 6 / 4; the factor makes that its share.
        assert_eq!(6.0 / 4.0 * factor, 0.75);
    }

    #[test]
    fn mixed_negative_and_zero_weights_are_errors() {
        for weights in [
            [LossWeight::Sum, LossWeight::Rows],
            [LossWeight::Items(1.0), LossWeight::Rows],
            [LossWeight::Items(-1.0), LossWeight::Items(2.0)],
            [LossWeight::Items(f64::NAN), LossWeight::Items(2.0)],
            [LossWeight::Items(0.0), LossWeight::Items(0.0)],
        ] {
            let error = shares(&weights, &[0.5, 0.5], 2.0).unwrap_err();
            assert!(matches!(error, DataParallelError::LossWeights { .. }));
        }
    }
}
