//! Apply: run a closure on every replica side by side.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;

use crate::config::RandomOrder;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase, Waiting};
use crate::gather::GatherPlan;
use crate::inspect::{check_placement, describe};
use crate::layout::Layout;
use crate::progress::Progress;
use crate::reading::Traits;
use crate::replicas::{Replicas, Source};
use crate::routes::copying;
use crate::scatter::{BatchInspector, Scatter};
use crate::shards::Shards;
use crate::slot::Slot;
use crate::snapshot::Link;
use crate::stats::{PhaseStats, StepStats};
use crate::turn::Turn;
use crate::undo::Undo;
use crate::watch::{Missing, Ticket};
use crate::workers::{caught, in_replica};

/// What all replicas gave, and how to put it together.
pub(crate) struct Applied<T> {
    pub(crate) results: Vec<T>,
    pub(crate) plan: GatherPlan,
    pub(crate) total_rows: f64,
    pub(crate) layout: Option<Arc<Layout>>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) stats: StepStats,
}

/// How a batch is cut, and its outputs are put together.
struct Cut {
    sizes: Vec<usize>,
    plan: GatherPlan,
}

impl<M: Module + 'static> DataParallel<M> {
    /// One step: scatter `batch`, run `work` on every replica that got a shard, wait until all have ended, and put the
    /// results together with `finish`. Whatever fails, the model is as before.
    pub(crate) fn step<B, T, R, F>(
        &self,
        call: &'static str,
        batch: B,
        link: impl FnOnce(Traits) -> Link + Send + 'static,
        work: F,
        finish: impl FnOnce(&Self, &mut Applied<T>) -> Result<R, DataParallelError> + Send + 'static,
    ) -> Result<R, DataParallelError>
    where
        B: Scatter + Send + 'static,
        T: Send + 'static,
        R: Send + 'static,
        F: Fn(&Slot, &M, B) -> Result<T, DataParallelError> + Send + Sync + 'static,
    {
        if in_replica() {
            return Err(DataParallelError::Nested { call });
        }
        let Some(watch) = &self.shared.watch else {
            return self.run_step(&Ticket::default(), batch, link, work, finish);
        };
        let model = self.clone();
        let result = watch.run(move |ticket| model.run_step(ticket, batch, link, work, finish));
        result.unwrap_or_else(|missing| {
            let busy = match missing {
                Missing::TimedOut(progress) => progress.map(|progress| progress.busy()),
                Missing::NoThread => None,
            };
            let waiting = busy.unwrap_or_default().into_iter();
            Err(DataParallelError::TimedOut {
                limit: watch.limit,
                waiting: waiting
                    .map(|(replica, phase)| Waiting {
                        replica,
                        device: describe(&self.shared.devices[replica]),
                        phase,
                    })
                    .collect(),
            })
        })
    }

    fn run_step<B, T, R, F>(
        &self,
        ticket: &Ticket,
        batch: B,
        link: impl FnOnce(Traits) -> Link,
        work: F,
        finish: impl FnOnce(&Self, &mut Applied<T>) -> Result<R, DataParallelError>,
    ) -> Result<R, DataParallelError>
    where
        B: Scatter + Send + 'static,
        T: Send + 'static,
        F: Fn(&Slot, &M, B) -> Result<T, DataParallelError> + Send + Sync + 'static,
    {
        let shared = &self.shared;
        let Cut { sizes, plan } = self.cut(&batch)?;
        let used = sizes.len();
        let devices = &shared.devices[..used];
        let total_rows = sizes.iter().sum::<usize>().max(1) as f64;
        let progress = Arc::new(shared.progress(used));
        ticket.show(&progress);

        let mut stats = StepStats {
            steps: 1,
            ..StepStats::default()
        };
        // Before the module is read, which may run a backward pass over tied weights. It guards no data, so a panic of another
        // holder says nothing.
        let in_training = self.module.devices().iter().any(Device::is_autodiff);
        let lock = || {
            let training = &shared.training;
            training.lock().unwrap_or_else(PoisonError::into_inner)
        };
        let _training = in_training.then(lock);
        let reading = self.guarded(&progress, Phase::Broadcast, || {
            self.lock()
                .reading(&self.module, self.version, self.primary())
        })?;
        let traits = reading.traits;
        if traits.misplaced {
            check_placement(&self.module, self.primary())?;
        }
        let link = link(traits);
        if link == Link::Graph
            && let Some((from, into)) = shared.routes.staged_among(devices)
        {
            return Err(DataParallelError::StagedGraph {
                from: describe(from),
                into: describe(into),
            });
        }
        let (started, traffic) = (Instant::now(), shared.traffic());
        let source = Source {
            module: &self.module,
            version: self.version,
            link,
            bucket_bytes: shared.bucket_bytes,
            traffic: &traffic,
            progress: &progress,
        };
        let replicas = self.guarded(&progress, Phase::Broadcast, || {
            self.lock().at(&source, devices)
        })?;
        // Gradients are packed only where they have to move: on one device that would be work for nothing.
        let apart = devices.iter().any(|device| *device != devices[0]);
        let packs = traits.autodiff && link == Link::Leaf && apart;
        let layout = self.guarded(&progress, Phase::Broadcast, || {
            packs.then(|| self.lock().gradient_layout(&source, &devices[0]))
        })?;
        stats.broadcast = traffic.phase(started);

        let detached = link == Link::Leaf && traits.autodiff;
        let shards = self.scatter(batch, sizes, detached, &progress, &mut stats)?;

        let undo = self.guarded(&progress, Phase::Broadcast, || {
            if traits.autodiff && traits.buffers {
                Undo::of(&self.module, &reading, self.primary())
            } else {
                Undo::nothing()
            }
        })?;
        let turn = self
            .takes_turns(traits, link, used)
            .then(Arc::<Turn>::default);
        let work = Arc::new(work);
        let jobs = replicas
            .into_iter()
            .zip(shards)
            .enumerate()
            .map(|(index, (replica, shard))| {
                let slot = Slot {
                    replica: index,
                    share: plan.weights[index],
                    total_rows,
                    layout: layout.clone(),
                    device: devices[index].clone(),
                    local: shared.local,
                    turn: turn.clone(),
                    progress: progress.clone(),
                };
                let work = work.clone();
                let job: Box<dyn FnOnce() -> Result<T, DataParallelError> + Send> =
                    Box::new(move || {
                        slot.progress.enter(index, Phase::Broadcast);
                        let result = work(&slot, &replica.module(), shard)?;
                        slot.progress.end(index);
                        Ok(result)
                    });
                job
            })
            .collect();

        let started = Instant::now();
        let outcomes = shared.workers.run(jobs);
        stats.apply = PhaseStats::since(started);
        let results = self.results(outcomes, &progress);
        let finish = |results| {
            let mut applied = Applied {
                results,
                plan,
                total_rows,
                layout,
                progress: progress.clone(),
                stats,
            };
            let result = finish(self, &mut applied)?;
            if !ticket.end() {
                // Nobody reads this: the caller has left with the same.
                return Err(DataParallelError::TimedOut {
                    limit: std::time::Duration::ZERO,
                    waiting: Vec::new(),
                });
            }
            shared.meter.commit(applied.stats);
            Ok(result)
        };
        // The caller's own code is in it (`StepResult`), and its panic is the caller's, but not before all is as it was.
        match catch_unwind(AssertUnwindSafe(|| results.and_then(finish))) {
            Ok(finished) => undo.unless_ok(finished, &self.module),
            Err(panic) => {
                undo.run(&self.module);
                resume_unwind(panic)
            }
        }
    }

    /// One shard for each of `sizes`, on its replica's device.
    fn scatter<B: Scatter>(
        &self,
        batch: B,
        sizes: Vec<usize>,
        detached: bool,
        progress: &Arc<Progress>,
        stats: &mut StepStats,
    ) -> Result<Vec<B>, DataParallelError> {
        let started = Instant::now();
        let expected = sizes.len();
        let devices = &self.shared.devices[..expected];
        let shards = self.guarded(progress, Phase::Scatter, || {
            progress.serve_all(Phase::Scatter);
            let mut plan = Shards::new(self.shared.dim, sizes, devices.to_vec());
            plan.traffic = Arc::new(self.shared.traffic());
            plan.progress = Some(progress.clone());
            // One replica alone may go on with the graph that the batch comes from.
            plan.detached = detached && expected > 1;
            let shards = match expected {
                1 => vec![batch.to_replica(0, &plan)],
                _ => batch.into_shards(&plan),
            };
            stats.scatter = plan.traffic.phase(started);
            shards
        })?;
        if shards.len() != expected {
            return Err(DataParallelError::ShardCount {
                given: shards.len(),
                expected,
            });
        }
        Ok(shards)
    }

    /// The replicas' results, or the first one's error; a panic becomes one that names the phase.
    fn results<T>(
        &self,
        outcomes: Vec<Result<Result<T, DataParallelError>, String>>,
        progress: &Progress,
    ) -> Result<Vec<T>, DataParallelError> {
        let outcomes = outcomes.into_iter().enumerate();
        let results = outcomes.map(|(replica, outcome)| {
            outcome.unwrap_or_else(|cause| {
                let phase = progress.phase(replica).unwrap_or(Phase::Apply);
                Err(self.broken(phase, replica, cause))
            })
        });
        results.collect()
    }

    fn cut(&self, batch: &impl Scatter) -> Result<Cut, DataParallelError> {
        let (dim, output_device) = (self.shared.dim, self.shared.output_device.clone());
        let mut inspector = BatchInspector::new(dim);
        batch.inspect(&mut inspector);
        let (sizes, mut plan) = match inspector.shard_sizes(self.shared.devices.len())? {
            Some(sizes) if !sizes.is_empty() => {
                let plan = GatherPlan::new(dim, output_device, &sizes);
                (sizes, plan)
            }
            // A batch without rows (or with none to split) has the numbers of one device on one device: the primary.
            _ => (vec![1], GatherPlan::whole(dim, output_device)),
        };
        plan.traffic = Arc::new(self.shared.traffic());
        Ok(Cut { sizes, plan })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Replicas<M>> {
        // A panic while replicas are renewed leaves each either whole or absent, so the lock's poison says nothing.
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes_turns(&self, traits: Traits, link: Link, used: usize) -> bool {
        // Burn's autodiff loses steps when threads extend graphs that share a node: `GraphMutexClient::register` finds the
        // graph under one lock and writes to it under another, and a merge in between leaves it writing to a graph that is no
        // longer looked at ("graph tape has already been consumed"). Forwards that share the primary's parameters therefore
        // take turns. `tests/behaviour/burn_faults.rs` tells when this can go.
        used > 1
            && (link == Link::Graph
                || match self.shared.random_order {
                    RandomOrder::Auto => traits.autodiff && traits.random,
                    RandomOrder::InTurn => true,
                    RandomOrder::Free => false,
                })
    }

    /// Run work of the coordinator, turning a panic of Burn's (a device that is gone) into an error. It may copy between devices.
    pub(crate) fn guarded<T>(
        &self,
        progress: &Progress,
        phase: Phase,
        work: impl FnOnce() -> T,
    ) -> Result<T, DataParallelError> {
        let _copying = self.shared.apart.then(copying);
        caught(work).map_err(|cause| self.broken(phase, progress.served(), cause))
    }

    pub(crate) fn broken(&self, phase: Phase, replica: usize, cause: String) -> DataParallelError {
        DataParallelError::Replica {
            replica,
            device: describe(&self.shared.devices[replica]),
            phase,
            cause,
            source: None,
        }
    }
}
