//! Apply: run a closure on every replica side by side.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;

use crate::config::RandomOrder;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase};
use crate::gather::GatherPlan;
use crate::inspect::{Traits, check_placement, describe};
use crate::layout::Layout;
use crate::replicas::{Replicas, Source};
use crate::scatter::{BatchInspector, Scatter};
use crate::shards::Shards;
use crate::snapshot::{Link, Snapshot};
use crate::stats::{StepStats, Traffic};
use crate::turn::Turn;
use crate::workers::{caught, in_replica};

/// The place of one replica in a step.
pub(crate) struct Slot {
    pub(crate) replica: usize,
    /// Rows of its shard over rows of the batch.
    pub(crate) share: f64,
    /// Rows of the batch; 1 where it has none.
    pub(crate) total_rows: f64,
    /// How gradients are packed, where they have to move.
    pub(crate) layout: Option<Arc<Layout>>,
    device: Device,
    local: bool,
    turn: Option<Arc<Turn>>,
}

impl Slot {
    /// Run the user's closure, in turn where random numbers are drawn.
    pub(crate) fn in_turn<T>(&self, run: impl FnOnce() -> T) -> T {
        let Some(turn) = &self.turn else { return run() };
        let _turn = turn.wait(self.replica);
        let result = run();
        // Backends that queue operations draw when they get to it. Here that is when the queue is flushed; on a server, whose
        // devices share a generator too, when the operation has run.
        let drawn = if self.local {
            self.device.flush()
        } else {
            self.device.sync()
        };
        // A device that fails here fails again where its results are used, and there it is reported.
        drop(drawn);
        result
    }

    pub(crate) fn device_name(&self) -> String {
        describe(&self.device)
    }

    /// The error for a closure that returned one.
    pub(crate) fn failed(
        &self,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> DataParallelError {
        DataParallelError::Replica {
            replica: self.replica,
            device: self.device_name(),
            phase: Phase::Apply,
            cause: source.to_string(),
            source: Some(source),
        }
    }
}

/// What all replicas gave, and how to put it together.
pub(crate) struct Applied<T> {
    pub(crate) results: Vec<T>,
    pub(crate) plan: GatherPlan,
    pub(crate) total_rows: f64,
    pub(crate) layout: Option<Arc<Layout>>,
}

impl<M: Module + 'static> DataParallel<M> {
    /// One step: scatter `batch`, run `work` on every replica that got a shard, wait until all have ended, and put the
    /// results together with `finish`. Whatever fails, the model is as before.
    pub(crate) fn step<B, T, R, F>(
        &self,
        call: &'static str,
        batch: B,
        link: impl FnOnce(Traits) -> Link,
        work: F,
        finish: impl FnOnce(Applied<T>, &mut StepStats) -> Result<R, DataParallelError>,
    ) -> Result<R, DataParallelError>
    where
        B: Scatter + Send + 'static,
        T: Send + 'static,
        F: Fn(&Slot, &M, B) -> Result<T, DataParallelError> + Send + Sync + 'static,
    {
        if in_replica() {
            return Err(DataParallelError::Nested { call });
        }
        let shared = &self.shared;
        let sizes = {
            let mut inspector = BatchInspector::new(shared.dim);
            batch.inspect(&mut inspector);
            inspector.shard_sizes(shared.devices.len())?
        };
        let (dim, output_device) = (shared.dim, shared.output_device.clone());
        let (sizes, plan) = match sizes {
            Some(sizes) if !sizes.is_empty() => {
                let plan = GatherPlan::new(dim, output_device, &sizes);
                (sizes, plan)
            }
            // A batch without rows (or with none to split) has the numbers of one device on one device: the primary.
            _ => (vec![1], GatherPlan::whole(dim, output_device)),
        };
        let used = sizes.len();
        let devices = &shared.devices[..used];
        let total_rows = sizes.iter().sum::<usize>().max(1) as f64;

        let mut stats = StepStats {
            steps: 1,
            ..StepStats::default()
        };
        let traits = self.traits();
        let _training = traits.autodiff.then(|| {
            // It guards no data, so a panic of another holder says nothing.
            let training = &shared.training;
            training.lock().unwrap_or_else(PoisonError::into_inner)
        });
        if traits.misplaced {
            check_placement(&self.module, self.primary())?;
        }
        let link = link(traits);
        let (started, traffic) = (Instant::now(), Traffic::default());
        let modules = self.replicas_on(devices, link, &traffic)?;
        let layout = self.gradient_layout(devices, link, traits);
        stats.broadcast = traffic.phase(started);

        let started = Instant::now();
        let shards = self.guarded(Phase::Scatter, 0, || {
            if used == 1 {
                vec![batch.to_replica(&devices[0])]
            } else {
                let mut plan = Shards::new(shared.dim, sizes, devices.to_vec());
                plan.detached = link == Link::Leaf && traits.autodiff;
                let shards = batch.into_shards(&plan);
                stats.scatter = plan.traffic.phase(started);
                shards
            }
        })?;

        if shards.len() != used {
            return Err(DataParallelError::ShardCount {
                given: shards.len(),
                expected: used,
            });
        }

        let undo = if traits.autodiff && traits.buffers {
            self.buffers()
        } else {
            Undo(None)
        };
        let turn = self
            .takes_turns(traits, link, used)
            .then(Arc::<Turn>::default);
        let work = Arc::new(work);
        let jobs = modules
            .into_iter()
            .zip(shards)
            .enumerate()
            .map(|(replica, (module, shard))| {
                let slot = Slot {
                    replica,
                    share: plan.weights[replica],
                    total_rows,
                    layout: layout.clone(),
                    device: devices[replica].clone(),
                    local: shared.local,
                    turn: turn.clone(),
                };
                let work = work.clone();
                let job: Box<dyn FnOnce() -> Result<T, DataParallelError> + Send> =
                    Box::new(move || work(&slot, &module, shard));
                job
            })
            .collect();

        let started = Instant::now();
        let outcomes = shared.workers.run(jobs);
        stats.apply = Traffic::default().phase(started);
        let results = outcomes
            .into_iter()
            .enumerate()
            .map(|(replica, outcome)| {
                outcome.unwrap_or_else(|cause| Err(self.broken(Phase::Apply, replica, cause)))
            })
            .collect::<Result<Vec<T>, _>>();
        let finished = results.and_then(|results| {
            let applied = Applied {
                results,
                plan,
                total_rows,
                layout,
            };
            finish(applied, &mut stats)
        });
        if finished.is_ok() {
            shared.meter.commit(stats);
        }
        undo.unless_ok(finished, &self.module)
    }

    fn traits(&self) -> Traits {
        self.lock()
            .traits(&self.module, self.version, self.primary())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Replicas<M>> {
        // A panic while replicas are renewed leaves each either whole or absent, so the lock's poison says nothing.
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replicas_on(
        &self,
        devices: &[Device],
        link: Link,
        traffic: &Traffic,
    ) -> Result<Vec<M>, DataParallelError> {
        if devices.len() == 1 {
            return Ok(vec![self.module.clone()]);
        }
        let source = Source {
            module: &self.module,
            version: self.version,
            link,
            bucket_bytes: self.shared.bucket_bytes,
            traffic,
        };
        self.guarded(Phase::Broadcast, 0, || self.lock().at(&source, devices))
    }

    /// Gradients are packed only where they have to move: on one device that would be work for nothing.
    fn gradient_layout(
        &self,
        devices: &[Device],
        link: Link,
        traits: Traits,
    ) -> Option<Arc<Layout>> {
        let move_grads = traits.autodiff
            && link == Link::Leaf
            && devices.iter().any(|device| *device != devices[0]);
        move_grads.then(|| Arc::new(Layout::of(&self.module, self.shared.bucket_bytes, true)))
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

    /// Running statistics before a step, to put back if it fails.
    fn buffers(&self) -> Undo {
        // Statistics that the last forward left pending are applied first, as the next forward would.
        drop(self.module.valid());
        let traffic = Traffic::default();
        Undo(Some(Snapshot::take(
            &self.module,
            self.primary(),
            Link::Leaf,
            &traffic,
        )))
    }

    /// Run work of the coordinator, turning a panic of Burn's (a device that is gone) into an error.
    pub(crate) fn guarded<T>(
        &self,
        phase: Phase,
        replica: usize,
        work: impl FnOnce() -> T,
    ) -> Result<T, DataParallelError> {
        caught(work).map_err(|cause| self.broken(phase, replica, cause))
    }

    fn broken(&self, phase: Phase, replica: usize, cause: String) -> DataParallelError {
        DataParallelError::Replica {
            replica,
            device: describe(&self.shared.devices[replica]),
            phase,
            cause,
            source: None,
        }
    }
}

/// The primary's running statistics as they were before a step, where it has some.
struct Undo(Option<Snapshot<'static>>);

impl Undo {
    /// `result`, after the running statistics of `module` have been put back if it is an error.
    fn unless_ok<T, M: Module>(
        self,
        result: Result<T, DataParallelError>,
        module: &M,
    ) -> Result<T, DataParallelError> {
        if let (Err(_), Some(snapshot)) = (&result, self.0) {
            // What the failed step left pending is applied by `valid`, then overwritten by `map` through the cells that a
            // clone shares; the mapped clone itself, with its copies of the parameters, is not needed.
            let undone = caught(|| {
                drop(module.valid());
                drop(snapshot.restore(module.clone()));
            });
            if let Err(cause) = undone {
                log::error!(
                    "running statistics could not be put back after a failed step: {cause}"
                );
            }
        }
        result
    }
}
