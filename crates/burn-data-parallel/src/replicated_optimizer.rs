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
use crate::routes::copying;
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
        let (lr, optimizers) = (lr.into(), self.ready(model));
        let (gathered, stepped) = model.step(
            "ReplicatedOptimizer::train_step",
            batch,
            |_| Link::Leaf,
            move |slot, replica, shard| {
                train(slot, replica, Scaling::Step, || step(replica, shard))
            },
            move |model, applied| {
                let combined = model.combine::<S>(applied)?;
                let (gathered, reduced) = model.all_reduce_or_reduce(combined, applied)?;
                let started = Instant::now();
                let stepped = model.optimize(lr, optimizers, reduced, &applied.progress)?;
                applied.stats.optimizer = PhaseStats::since(started);
                Ok((gathered, stepped))
            },
        )?;
        self.keep(model, stepped);
        Ok(gathered)
    }

    /// The optimizers for the next step of `model`. Clones share their tensors: the originals are kept until it has succeeded.
    fn ready<M: Module>(&self, model: &DataParallel<M>) -> Optimizers {
        let current = self.version == model.version;
        let others = if current {
            self.others.clone()
        } else {
            Vec::new()
        };
        Optimizers {
            primary: self.primary.clone(),
            others,
        }
    }

    fn keep<M: Module + 'static>(&mut self, model: &mut DataParallel<M>, stepped: Stepped<M>) {
        let Stepped {
            primary,
            optim,
            others,
        } = stepped;
        (model.module, model.version) = (primary, next_version());
        (self.primary, self.version) = (optim, model.version);
        // Replicas that took no part are behind: they get the primary's values and state when they are used again.
        self.others.clear();
        let mut kept = Vec::with_capacity(others.len());
        for (copy, optim) in others {
            self.others.push(Some(optim));
            kept.push(Kept {
                version: model.version,
                ..copy
            });
        }
        model.lock().keep(kept.into_iter());
    }
}

/// Optimizers of the primary and of the others, as far as those have one of their own.
struct Optimizers {
    primary: ModuleOptimizer,
    others: Vec<Option<ModuleOptimizer>>,
}

/// What the optimizers have made: of the primary, and of the replicas that stepped too.
struct Stepped<M> {
    primary: M,
    optim: ModuleOptimizer,
    others: Vec<(Kept<M>, ModuleOptimizer)>,
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

    /// The optimizers' steps on the primary and, where they have gradients of their own, on the other replicas.
    fn optimize(
        &self,
        lr: ModuleLearningRate,
        mut optimizers: Optimizers,
        reduced: Reduced,
        progress: &Arc<Progress>,
    ) -> Result<Stepped<M>, DataParallelError> {
        let mut grads = match reduced {
            Reduced::Primary(grads) => vec![grads],
            Reduced::All(grads) => grads,
        };
        let copies = self.lock().copies(grads.len(), self.version);
        // A clone of the wrapper may have used the replicas in between: then only the primary steps, and they follow it.
        let copies = copies.unwrap_or_default();
        grads.truncate(1 + copies.len());
        optimizers.others.resize_with(copies.len(), || None);
        // A copy of the primary's optimizer moves its state with its first step, and copies between devices are issued in one
        // order, so by one thread.
        let moves = optimizers.others.iter().any(Option::is_none);
        let others = optimizers.others.into_iter();
        let others = others.map(|own| own.unwrap_or_else(|| optimizers.primary.clone()));
        let mut parts = vec![(optimizers.primary.clone(), self.module.clone())];
        parts.extend(
            others
                .zip(&copies)
                .map(|(optim, copy)| (optim, copy.module.clone())),
        );
        let jobs = parts.into_iter().zip(grads).enumerate();
        let jobs = jobs.map(|(replica, ((mut optim, module), grads))| {
            let (lr, progress) = (lr.clone(), progress.clone());
            let job: Job<M> = Box::new(move || {
                progress.enter(replica, Phase::Optimizer);
                let module = optim.step(lr, module, grads);
                progress.end(replica);
                (module, optim)
            });
            job
        });
        let mut stepped = self.run_optimizers(jobs.collect(), moves)?;
        let others = stepped.split_off(1).into_iter().zip(copies);
        let others = others.map(|((module, optim), copy)| (Kept { module, ..copy }, optim));
        let others = others.collect();
        let (primary, optim) = stepped.pop().expect("the primary always steps");
        Ok(Stepped {
            primary,
            optim,
            others,
        })
    }

    /// Run the optimizers' steps, side by side unless they `move` state between devices.
    fn run_optimizers(
        &self,
        jobs: Vec<Job<M>>,
        moves: bool,
    ) -> Result<Vec<(M, ModuleOptimizer)>, DataParallelError> {
        let outcomes = if moves {
            let _copying = self.shared.apart.then(copying);
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
