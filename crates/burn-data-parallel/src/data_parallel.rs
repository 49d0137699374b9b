//! The wrapper: what it holds, and what it tells of itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::Device;

use crate::all_reduce::Transport;
use crate::config::{DataParallelConfig, RandomOrder};
use crate::device_ids::DeviceIds;
use crate::error::DataParallelError;
use crate::inspect::describe;
use crate::progress::Progress;
use crate::replicas::Replicas;
use crate::routes::Routes;
use crate::stats::{Meter, StepStats, Traffic};
use crate::watch::Watch;
use crate::workers::Workers;

/// A module that trains and runs on several devices: one replica each, the batch split over them.
///
/// It is a [`Module`] itself, and a transparent one: records, parameter ids, `num_params`, `valid()`, optimizers and
/// parameter groups see the wrapped module alone. The first device is the primary: it holds the parameters and the optimizer
/// state, and gradients are reduced onto it.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::{GradientsParams, SgdConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds};
///
/// let device = Device::flex().autodiff();
/// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let mut optim = SgdConfig::new().init();
///
/// let batch = Tensor::<2>::random([9, 4], Distribution::Default, &device);
/// let (loss, grads) = model.train_step(batch, |replica: &Linear, shard| {
///     replica.forward(shard).powf_scalar(2.0).mean()
/// })?;
/// let model = optim.step(0.1, model, grads);
/// # let _ = (loss, model);
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
///
/// # What replicas share
///
/// - **Parameters** (float, int, bool; frozen too) are copied from the primary before a step if they changed.
/// - **Running statistics** (BatchNorm): each replica normalizes by its own shard, and the primary's shard updates the
///   primary's statistics, as in PyTorch's
///   [`DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html). Replicas start each step
///   with the primary's statistics; what they add is dropped.
/// - **Random numbers** (dropout): replicas draw different ones; see [`RandomOrder`] and [`seed_all`](Self::seed_all).
///
/// Clones share worker threads; each keeps parameters of its own. A wrapper may be used from several threads at once: training
/// steps then wait for each other, inference runs side by side. (`backward()` on an output of [`forward`](Self::forward) is
/// Burn's own and waits for nobody: keep `forward` with gradients to one thread at a time, as with any Burn module.)
pub struct DataParallel<M> {
    pub(crate) module: M,
    /// Changes whenever the module's values may have: equal versions mean equal values, over all wrappers.
    pub(crate) version: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) replicas: Arc<Mutex<Replicas<M>>>,
}

/// What all clones of a wrapper have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) devices: Vec<Device>,
    pub(crate) ordinals: Option<Vec<usize>>,
    pub(crate) output_device: Device,
    pub(crate) dim: usize,
    pub(crate) random_order: RandomOrder,
    /// All devices are of a backend in this process, rather than a server's.
    pub(crate) local: bool,
    /// Some replica is on another device than the primary.
    pub(crate) apart: bool,
    pub(crate) bucket_bytes: usize,
    pub(crate) workers: Workers,
    pub(crate) meter: Arc<Meter>,
    /// The time limit of a step, where there is one.
    pub(crate) watch: Option<Watch>,
    pub(crate) routes: Arc<Routes>,
    /// By what an all-reduce goes, where that is how gradients are brought together.
    pub(crate) all_reduce: Option<Transport>,
    #[cfg(feature = "fault-injection")]
    pub(crate) faults: Option<crate::faults::Faults>,
    /// Held through a step in training mode: steps of several threads would extend graphs that share the primary's
    /// parameters, which Burn's autodiff does not bear (see `takes_turns`).
    pub(crate) training: Mutex<()>,
}

impl Shared {
    /// The copies of one phase.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic::on(&self.routes)
    }

    /// The board of a step on the first `used` replicas.
    pub(crate) fn progress(&self, used: usize) -> Progress {
        let progress = Progress::new(used);
        #[cfg(feature = "fault-injection")]
        let progress = progress.with_faults(self.faults.clone());
        progress
    }
}

pub(crate) fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<M: Module> DataParallel<M> {
    /// Wrap `model`, to run on `device_ids`; the first is the primary, and the model is moved there.
    ///
    /// # Errors
    ///
    /// `NoDevices`, `DeviceNotFound` or `Visibility` (an id that is not visible), `RepeatedDevice`, `ReplicaCount`,
    /// `MixedBackends`, `NoParameters`, `CannotEnumerate`, `Thread`, or `SelfCheck` (copies between two of the devices go wrong);
    /// all before anything is moved.
    pub fn new(model: M, device_ids: impl Into<DeviceIds>) -> Result<Self, DataParallelError> {
        DataParallelConfig::new().init_on(model, device_ids)
    }

    /// The same wrapper around another state of the module.
    pub(crate) fn with_module(self, change: impl FnOnce(M) -> M) -> Self {
        Self {
            module: change(self.module),
            version: next_version(),
            shared: self.shared,
            replicas: self.replicas,
        }
    }

    /// A wrapper on the same devices, with replicas of its own.
    pub(crate) fn beside(&self, module: M) -> Self {
        Self {
            module,
            version: next_version(),
            shared: self.shared.clone(),
            replicas: Replicas::shared(self.shared.devices.len()),
        }
    }

    /// The wrapped module, on the primary.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// Unwrap.
    pub fn into_inner(self) -> M {
        self.module
    }

    /// Change the wrapped module by any function; replicas follow before the next step.
    pub fn map_module(self, change: impl FnOnce(M) -> M) -> Self {
        let mut changed = self.with_module(change);
        changed.replicas = Replicas::shared(changed.shared.devices.len());
        changed
    }

    /// The devices of the replicas, in order; the first is the primary.
    pub fn replica_devices(&self) -> &[Device] {
        &self.shared.devices
    }

    /// The ordinals of the devices, in order, where they were given or found as such.
    pub fn device_ids(&self) -> Option<&[usize]> {
        self.shared.ordinals.as_deref()
    }

    /// The device that holds the parameters.
    pub fn primary(&self) -> &Device {
        &self.shared.devices[0]
    }

    /// The device on which outputs are gathered.
    pub fn output_device(&self) -> &Device {
        &self.shared.output_device
    }

    /// The number of replicas.
    pub fn replica_count(&self) -> usize {
        self.shared.devices.len()
    }

    /// Seed the random generators of all devices, each differently, so that replicas draw different numbers and the same
    /// seed repeats a run.
    ///
    /// Where a backend keeps one generator for all its devices (flex, CubeCL), that one is seeded.
    pub fn seed_all(&self, seed: u64) {
        // The primary last: a shared generator then starts as a plain `device.seed(seed)` would.
        for (replica, device) in self.shared.devices.iter().enumerate().rev() {
            device.seed(seed.wrapping_add(replica as u64));
            if !self.shared.local {
                // A server takes the seeds of its devices as they come; each must be in place before the next is sent. A
                // device that is gone says so in the next step.
                let _ = device.sync();
            }
        }
    }

    /// Ask every device to release memory that its allocator keeps in reserve, as `torch.cuda.empty_cache` does.
    pub fn release_cached_memory(&self) {
        self.shared.devices.iter().for_each(Device::memory_cleanup);
    }

    /// What the last step of this wrapper or a clone of it cost.
    pub fn step_stats(&self) -> StepStats {
        self.shared.meter.last()
    }

    /// Call `observe` after every step of this wrapper and its clones that has succeeded: inference and training alike, with
    /// what it cost.
    ///
    /// It is called before the step returns, so the optimizer's time is not in it (but for a
    /// [`ReplicatedOptimizer`](crate::ReplicatedOptimizer)), and a step lasts until it returns, whatever the time limit. It may be
    /// called from several threads. It
    /// may ask the wrapper for anything but a step (`Nested`); if it panics, that is logged and the step succeeds. An observer
    /// that holds a clone of the wrapper keeps it alive.
    ///
    /// ```
    /// use burn::nn::{Linear, LinearConfig};
    /// use burn::tensor::{Device, Distribution, Tensor};
    /// use burn_data_parallel::{DataParallel, DeviceIds};
    ///
    /// let device = Device::flex().autodiff();
    /// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?
    ///     .on_step(|stats| println!("{:?} in forward and backward", stats.apply.time()));
    /// let batch = Tensor::<2>::random([8, 4], Distribution::Default, &device);
    /// model.train_step(batch, |replica: &Linear, shard| replica.forward(shard).mean())?;
    /// # Ok::<(), burn_data_parallel::DataParallelError>(())
    /// ```
    pub fn on_step(self, observe: impl Fn(&StepStats) + Send + Sync + 'static) -> Self {
        self.shared.meter.observe(Arc::new(observe));
        self
    }

    /// What all steps of this wrapper and its clones have cost together.
    pub fn total_stats(&self) -> StepStats {
        self.shared.meter.total()
    }

    /// "0: Flex, 0: Flex": the replicas' devices, as `{}` and `{:?}` show them.
    pub(crate) fn summary(&self) -> String {
        let names: Vec<String> = self
            .shared
            .devices
            .iter()
            .enumerate()
            .map(|(replica, device)| match &self.shared.ordinals {
                Some(ordinals) => format!("{}: {}", ordinals[replica], describe(device)),
                None => describe(device),
            })
            .collect();
        names.join(", ")
    }
}

impl<M: Module> Clone for DataParallel<M> {
    fn clone(&self) -> Self {
        Self {
            module: self.module.clone(),
            version: self.version,
            shared: self.shared.clone(),
            replicas: self.replicas.clone(),
        }
    }
}
