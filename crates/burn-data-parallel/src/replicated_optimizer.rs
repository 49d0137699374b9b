//! An optimizer on every replica, so that gradients are all-reduced and no parameters are broadcast.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use std::sync::Arc;
use std::time::Instant;

use crate::all_reduce::all_reduce;
use crate::apply::Applied;
use crate::data_parallel::{DataParallel, next_version};
use crate::error::{DataParallelError, Phase};
use crate::kept::Kept;
use crate::loss::StepResult;
use crate::progress::Progress;
use crate::reduce::{Grads, unpack};
use crate::scatter::Scatter;
use crate::snapshot::Link;
use crate::stats::PhaseStats;
use crate::train_step::{Combined, Scaling, Trained, train};

/// An optimizer for a [`DataParallel`] that steps all replicas, by the wrapper's
/// [`Reduction`](crate::Reduction).
///
/// With `Primary` it does what `optim.step(lr, model, grads)` does: gradients are summed onto the primary, which steps, and
/// parameters are broadcast before the next step. With `AllReduce` every replica gets the sum and takes the same step on its own
/// copy, with its own state of the optimizer: nothing is broadcast, the primary moves no more bytes than the others, and each
/// device holds the optimizer's state once. The numbers are the same, and the primary is what is saved.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::AdamConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds, ReplicatedOptimizer};
///
/// let device = Device::flex().autodiff();
/// let mut model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let mut optim = ReplicatedOptimizer::new(AdamConfig::new().init());
/// for _ in 0..3 {
///     let batch = Tensor::<2>::random([8, 4], Distribution::Default, &device);
///     let loss = optim.train_step(1e-3, &mut model, batch, |replica: &Linear, shard| {
///         replica.forward(shard).powf_scalar(2.0).mean()
///     })?;
///     assert_eq!(loss.dims(), [1]);
/// }
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
pub struct ReplicatedOptimizer {
    primary: ModuleOptimizer,
    /// Of replicas 1 and up, as they were after the step that made `version`.
    others: Vec<Option<ModuleOptimizer>>,
    version: u64,
    /// The primary's optimizer has no state yet, so that a copy of it has none to move.
    fresh: bool,
}

/// What a training step leaves for the optimizers.
enum Reduced {
    /// Gradients on the primary alone.
    Primary(GradientsParams),
    /// The same gradients on the devices of the replicas that took part.
    All(Vec<GradientsParams>),
}

impl ReplicatedOptimizer {
    /// The same optimizer for all replicas.
    pub fn new(optim: ModuleOptimizer) -> Self {
        Self {
            primary: optim,
            others: Vec::new(),
            version: u64::MAX,
            fresh: true,
        }
    }

    /// The primary's optimizer.
    pub fn primary(&self) -> &ModuleOptimizer {
        &self.primary
    }

    /// The state of the primary's optimizer, which is every replica's.
    pub fn to_record(&self) -> OptimizerRecord {
        self.primary.to_record()
    }

    /// The same optimizer with the state of `record`, saved by any Burn optimizer of the same kind, replicated or not.
    pub fn load_record(self, record: OptimizerRecord) -> Self {
        Self {
            primary: self.primary.load_record(record),
            others: Vec::new(),
            version: u64::MAX,
            fresh: false,
        }
    }

    /// [`DataParallel::train_step`], and a step of the optimizer on the wrapped model.
    ///
    /// # Errors
    ///
    /// As [`DataParallel::train_step`]; `Replica` in [`Phase::Optimizer`] where an optimizer's step fails. `model` and the
    /// optimizer are then as before.
    pub fn train_step<M, B, S, F>(
        &mut self,
        lr: impl Into<ModuleLearningRate>,
        model: &mut DataParallel<M>,
        batch: B,
        step: F,
    ) -> Result<S::Gathered, DataParallelError>
    where
        M: Module + 'static,
        B: Scatter + Send + 'static,
        S: StepResult,
        F: Fn(&M, B) -> S + Send + Sync + 'static,
    {
        let (gathered, reduced) = model.step(
            "ReplicatedOptimizer::train_step",
            batch,
            |_| Link::Leaf,
            move |slot, replica, shard| {
                train(slot, replica, Scaling::Step, || step(replica, shard))
            },
            |model, applied| {
                let combined = model.combine::<S>(applied)?;
                model.all_reduce_or_reduce(combined, applied)
            },
        )?;
        let started = Instant::now();
        self.optimize(lr.into(), model, reduced)?;
        model.shared.meter.optimizer(PhaseStats::since(started));
        Ok(gathered)
    }

    fn optimize<M: Module + 'static>(
        &mut self,
        lr: ModuleLearningRate,
        model: &mut DataParallel<M>,
        reduced: Reduced,
    ) -> Result<(), DataParallelError> {
        let mut grads = match reduced {
            Reduced::Primary(grads) => vec![grads],
            Reduced::All(grads) => grads,
        };
        let copies = model.lock().copies(grads.len(), model.version);
        // A clone of the wrapper may have used the replicas in between: then only the primary steps, and they follow it.
        let copies = copies.unwrap_or_default();
        grads.truncate(1 + copies.len());
        self.others.resize_with(model.replica_count() - 1, || None);
        let others = &mut self.others[..copies.len()];
        if self.version != model.version {
            others.fill_with(|| None);
        }
        // A copy of the primary's optimizer moves its state with its first step, and copies between devices are issued in one
        // order, so by one thread.
        let moves = !self.fresh && others.iter().any(Option::is_none);
        // Clones share their tensors: the originals are kept until all steps have succeeded.
        let mut parts = vec![(self.primary.clone(), model.module.clone())];
        parts.extend(others.iter().zip(&copies).map(|(own, copy)| {
            let optim = own.as_ref().unwrap_or(&self.primary);
            (optim.clone(), copy.module.clone())
        }));
        let progress = Arc::new(model.shared.progress(parts.len()));
        let jobs = parts.into_iter().zip(grads).enumerate();
        let jobs = jobs.map(|(replica, ((mut optim, module), grads))| {
            let (lr, progress) = (lr.clone(), progress.clone());
            let job: Job<M> = Box::new(move || {
                progress.enter(replica, Phase::Optimizer);
                let module = optim.step(lr, module, grads);
                (module, optim)
            });
            job
        });
        let mut stepped = model.run_optimizers(jobs.collect(), moves)?.into_iter();

        if let Some((module, optim)) = stepped.next() {
            (model.module, model.version) = (module, next_version());
            self.primary = optim;
        }
        // Replicas that took no part are behind: they get the primary's values and state when they are used again.
        self.others.fill_with(|| None);
        let mut kept = Vec::with_capacity(copies.len());
        for (replica, ((module, optim), copy)) in stepped.zip(copies).enumerate() {
            self.others[replica] = Some(optim);
            kept.push(Kept {
                module,
                version: model.version,
                ..copy
            });
        }
        model.lock().keep(kept.into_iter());
        self.version = model.version;
        self.fresh = false;
        Ok(())
    }
}

/// One replica's step of the optimizer.
pub(crate) type Job<M> = Box<dyn FnOnce() -> (M, ModuleOptimizer) + Send>;

impl<M: Module + 'static> DataParallel<M> {
    /// Reduce by the wrapper's strategy.
    fn all_reduce_or_reduce<G, O>(
        &self,
        combined: Combined<G>,
        applied: &mut Applied<Trained<O>>,
    ) -> Result<(G, Reduced), DataParallelError> {
        let Combined {
            gathered,
            grads,
            factor,
            ..
        } = combined;
        let layout = applied.layout.clone();
        let reduced = match (layout, self.shared.all_reduce) {
            (Some(layout), Some(transport)) => {
                let (started, traffic) = (Instant::now(), self.shared.traffic());
                let progress: &Progress = &applied.progress;
                let reduced = self.guarded(progress, Phase::Reduce, || {
                    let parts = grads.into_iter().filter_map(Grads::into_packed).collect();
                    let devices = &self.shared.devices;
                    all_reduce(parts, factor, devices, transport, &traffic, progress)
                        .into_iter()
                        .map(|sum| unpack(&self.module, sum, &layout))
                        .collect()
                })?;
                applied.stats.reduce = traffic.phase(started);
                Reduced::All(reduced)
            }
            _ => Reduced::Primary(self.reduce(grads, factor, applied)?),
        };
        Ok((gathered, reduced))
    }

    /// Run the optimizers' steps, side by side unless they `move` state between devices.
    fn run_optimizers(
        &self,
        jobs: Vec<Job<M>>,
        moves: bool,
    ) -> Result<Vec<(M, ModuleOptimizer)>, DataParallelError> {
        let outcomes = if moves {
            jobs.into_iter().map(crate::workers::caught).collect()
        } else {
            self.shared.workers.run(jobs)
        };
        outcomes
            .into_iter()
            .enumerate()
            .map(|(replica, outcome)| {
                outcome.map_err(|cause| self.broken(Phase::Optimizer, replica, cause))
            })
            .collect()
    }
}

impl std::fmt::Debug for ReplicatedOptimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let others = self.others.iter().flatten().count();
        f.debug_struct("ReplicatedOptimizer")
            .field("replicas", &(1 + others))
            .finish_non_exhaustive()
    }
}
