//! `forward`: scatter, run, gather, inside the autodiff graph.

use std::time::Instant;

use burn::module::Module;

use crate::apply::Applied;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase};
use crate::gather::{Gather, GatherPlan};
use crate::scatter::Scatter;
use crate::snapshot::Link;

impl<M: Module + 'static> DataParallel<M> {
    /// Split `batch`, run `forward` on every replica, and gather the outputs in order on the output device.
    ///
    /// In training mode everything is part of one autodiff graph: `backward()` on a loss of the gathered output gives the
    /// gradients of the whole batch on the primary's parameters, as one device would; forwards take turns there, since Burn's
    /// autodiff does not bear several threads in one graph. In validation mode ([`valid`](Module::valid)) replicas are plain
    /// copies and run side by side. [`train_step`](Self::train_step) is faster for training and needs less memory on the
    /// primary.
    ///
    /// Fewer rows than replicas use fewer replicas; a batch without rows runs on the primary alone.
    ///
    /// ```
    /// use burn::nn::{Linear, LinearConfig};
    /// use burn::optim::GradientsParams;
    /// use burn::tensor::{Device, Distribution, Tensor};
    /// use burn_data_parallel::{DataParallel, DeviceIds};
    ///
    /// let device = Device::flex().autodiff();
    /// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 3))?;
    /// let batch = Tensor::<2>::random([8, 4], Distribution::Default, &device);
    /// let output = model.forward(batch, |replica: &Linear, shard| replica.forward(shard))?;
    /// assert_eq!(output.dims(), [8, 2]);
    /// let grads = GradientsParams::from_grads(output.mean().backward(), &model);
    /// assert_eq!(grads.len(), 2);
    /// # Ok::<(), burn_data_parallel::DataParallelError>(())
    /// ```
    ///
    /// # Shapes
    ///
    /// Every tensor of the batch that is split has the same number of rows along the configured dim (or its field's own);
    /// outputs are concatenated along that dim.
    ///
    /// # Errors
    ///
    /// `UnequalRows`, `NoScatterDim`, `UnequalShards`, `EmptyShard`, `ShardCount` (the batch); `GatherShapes`, `NoGatherDim`,
    /// `ScalarOutput`, `GatherMismatch` (the outputs); `Placement` (a parameter has left the primary); `StagedGraph` (in training
    /// mode, where copies go through the host); `Replica` (a replica or its device failed, after all others have ended);
    /// `TimedOut` (the time limit has passed); `Nested` (called from inside a replica).
    ///
    /// # Panics
    ///
    /// Where a [`Scatter::inspect`] of the caller's own does.
    pub fn forward<B, O, F>(&self, batch: B, forward: F) -> Result<O, DataParallelError>
    where
        B: Scatter + Send + 'static,
        O: Gather + Send + 'static,
        F: Fn(&M, B) -> O + Send + Sync + 'static,
    {
        self.try_forward(batch, move |replica, shard| {
            Ok::<O, std::convert::Infallible>(forward(replica, shard))
        })
    }

    /// [`forward`](Self::forward) with a closure that can fail.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward); an error that the closure returned is the source of `Replica`.
    pub fn try_forward<B, O, E, F>(&self, batch: B, forward: F) -> Result<O, DataParallelError>
    where
        B: Scatter + Send + 'static,
        O: Gather + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        F: Fn(&M, B) -> Result<O, E> + Send + Sync + 'static,
    {
        let link = |traits: crate::reading::Traits| {
            if traits.autodiff {
                Link::Graph
            } else {
                Link::Leaf
            }
        };
        self.step(
            "forward",
            batch,
            link,
            move |slot, replica, shard| {
                slot.in_turn(|| forward(replica, shard))
                    .map_err(|error| slot.failed(error.into()))
            },
            |model, applied| {
                let outputs = std::mem::take(&mut applied.results);
                model.gather(outputs, &applied.plan.clone(), applied)
            },
        )
    }

    /// Put outputs together on the output device.
    pub(crate) fn gather<O: Gather, T>(
        &self,
        outputs: Vec<O>,
        plan: &GatherPlan,
        applied: &mut Applied<T>,
    ) -> Result<O, DataParallelError> {
        let started = Instant::now();
        let progress = &applied.progress;
        let output = self.guarded(progress, Phase::Gather, || {
            progress.serve_all(Phase::Gather);
            O::gather_shards(outputs, plan)
        })??;
        applied.stats.gather = plan.traffic.phase(started);
        Ok(output)
    }
}
