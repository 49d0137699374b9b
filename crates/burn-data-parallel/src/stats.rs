//! What steps cost: time, transfers and bytes by phase.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, kind::Basic};
use serde::Serialize;

use crate::routes::Routes;
use crate::workers::caught;

/// What one phase cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PhaseStats {
    /// Nanoseconds on the caller's thread. Devices that run behind the host (GPUs) may finish later.
    pub nanoseconds: u64,
    /// Copies from one device to another.
    pub transfers: u64,
    /// Bytes of those copies.
    pub bytes: u64,
}

impl PhaseStats {
    /// The time as a [`Duration`].
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }

    /// A phase that began at `started` and copied nothing.
    pub(crate) fn since(started: Instant) -> Self {
        Traffic::default().phase(started)
    }

    fn add(&mut self, other: &PhaseStats) {
        self.nanoseconds += other.nanoseconds;
        self.transfers += other.transfers;
        self.bytes += other.bytes;
    }
}

/// What one step, or all steps, cost.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds};
///
/// let device = Device::flex().autodiff();
/// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let batch = Tensor::<2>::random([8, 4], Distribution::Default, &device);
/// model.train_step(batch, |replica: &Linear, shard| replica.forward(shard).mean())?;
/// let stats = model.step_stats();
/// assert_eq!(stats.steps, 1);
/// assert_eq!(stats.transfers(), 0); // both replicas are on one device
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepStats {
    /// Number of steps.
    pub steps: u64,
    /// Copying changed parameters and buffers to the replicas.
    pub broadcast: PhaseStats,
    /// Splitting the batch and moving the shards.
    pub scatter: PhaseStats,
    /// Forward and backward on all replicas, until the last has ended.
    pub apply: PhaseStats,
    /// Summing gradients onto the primary.
    pub reduce: PhaseStats,
    /// Putting losses and outputs together.
    pub gather: PhaseStats,
    /// The optimizer's update of the parameters since the step (any `Module::map` of the wrapper).
    pub optimizer: PhaseStats,
}

impl StepStats {
    /// Copies of parameters and gradients between devices: those of broadcast and reduce. What Burn itself moves when a replica is
    /// made (tensors that are no parameters) is not counted.
    pub fn transfers(&self) -> u64 {
        self.broadcast.transfers + self.reduce.transfers
    }

    /// Bytes of those copies.
    pub fn bytes(&self) -> u64 {
        self.broadcast.bytes + self.reduce.bytes
    }

    fn add(&mut self, other: &StepStats) {
        self.steps += other.steps;
        self.broadcast.add(&other.broadcast);
        self.scatter.add(&other.scatter);
        self.apply.add(&other.apply);
        self.reduce.add(&other.reduce);
        self.gather.add(&other.gather);
        self.optimizer.add(&other.optimizer);
    }
}

type Observer = Arc<dyn Fn(&StepStats) + Send + Sync>;

/// The last step's stats and the sum of all, and who wants to know of each step.
#[derive(Default)]
pub(crate) struct Meter {
    stats: Mutex<(StepStats, StepStats)>,
    observers: Mutex<Vec<Observer>>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meter").field(&self.last()).finish()
    }
}

impl Meter {
    pub(crate) fn commit(&self, step: StepStats) {
        let mut stats = self.lock();
        stats.0 = step;
        stats.1.add(&step);
        drop(stats);
        // Called without the locks, so that an observer may ask for stats, or add another.
        let observers = self.observers().clone();
        for observe in observers {
            // As in a replica's closure, a step of the wrapper would wait for this one, and is refused.
            if let Err(cause) = caught(|| observe(&step)) {
                log::error!("an observer of steps panicked: {cause}");
            }
        }
    }

    pub(crate) fn observe(&self, observer: Observer) {
        self.observers().push(observer);
    }

    fn observers(&self) -> std::sync::MutexGuard<'_, Vec<Observer>> {
        let observers = &self.observers;
        observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn optimizer(&self, phase: PhaseStats) {
        let mut stats = self.lock();
        stats.0.optimizer.add(&phase);
        stats.1.optimizer.add(&phase);
    }

    pub(crate) fn reduce(&self, phase: PhaseStats) {
        let mut stats = self.lock();
        stats.0.reduce.add(&phase);
        stats.1.reduce.add(&phase);
    }

    pub(crate) fn last(&self) -> StepStats {
        self.lock().0
    }

    pub(crate) fn total(&self) -> StepStats {
        self.lock().1
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (StepStats, StepStats)> {
        // Numbers are valid at any time, so a poisoned lock loses nothing.
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the copies of one phase, and counts them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    routes: Arc<Routes>,
    transfers: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    pub(crate) fn on(routes: &Arc<Routes>) -> Self {
        Self {
            routes: routes.clone(),
            ..Self::default()
        }
    }

    /// Move `tensor` to `device`, counted if it has to move.
    pub(crate) fn to_device<const D: usize, K: Basic>(
        &self,
        tensor: Tensor<D, K>,
        device: &Device,
    ) -> Tensor<D, K> {
        if tensor.device() == *device {
            return tensor.to_device(device);
        }
        self.count(&tensor, 1.0);
        self.routes.send(tensor, device)
    }

    /// Count a transfer of `tensor`, or of a multiple of its bytes.
    pub(crate) fn count<const D: usize, K: Basic>(&self, tensor: &Tensor<D, K>, times: f64) {
        let bytes = (tensor.shape().num_elements() * tensor.dtype().size()) as f64 * times;
        self.transfers.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The phase that began at `started` and made these copies.
    pub(crate) fn phase(&self, started: Instant) -> PhaseStats {
        PhaseStats {
            nanoseconds: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            transfers: self.transfers.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
