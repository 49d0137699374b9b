//! The wrapper: what it holds, how it is made, and what it tells of itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::all_reduce::Transport;
use crate::config::{DataParallelConfig, RandomOrder, Reduction};
use crate::device_ids::{DeviceIds, Resolved, check_distinct};
use crate::error::DataParallelError;
use crate::inspect::{check_placement, describe, has_leaves_only};
use crate::kept::private_copy;
use crate::listing::{has_collective, is_local};
use crate::progress::Progress;
use crate::reading::Reading;
use crate::replicas::Replicas;
use crate::routes::Routes;
use crate::self_check;
use crate::snapshot::{Link, Scope, Take};
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
    ordinals: Option<Vec<usize>>,
    pub(crate) output_device: Device,
    pub(crate) dim: usize,
    pub(crate) random_order: RandomOrder,
    /// All devices are of a backend in this process, rather than a server's.
    pub(crate) local: bool,
    pub(crate) bucket_bytes: usize,
    pub(crate) workers: Workers,
    pub(crate) meter: Arc<Meter>,
    /// The time limit of a step, where there is one.
    pub(crate) watch: Option<Watch>,
    pub(crate) routes: Arc<Routes>,
    /// By what an all-reduce goes, where that is how gradients are brought together.
    pub(crate) all_reduce: Option<Transport>,
    #[cfg(feature = "fault-injection")]
    faults: Option<crate::faults::Faults>,
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
    /// `MixedBackends`, `NoParameters`, `CannotEnumerate`, or `Thread`; all before anything is moved.
    pub fn new(model: M, device_ids: impl Into<DeviceIds>) -> Result<Self, DataParallelError> {
        DataParallelConfig::new().init_on(model, device_ids)
    }

    pub(crate) fn build(
        model: M,
        device_ids: DeviceIds,
        config: &DataParallelConfig,
    ) -> Result<Self, DataParallelError> {
        config.check()?;
        let model_device = model.devices().into_iter().next();
        let resolved = device_ids.resolve(model_device.as_ref(), config.allow_repeated)?;
        let devices = match &model_device {
            Some(device) => in_context_of(device, &resolved.devices),
            None => resolved.devices.clone(),
        };
        let output_device = output_device(config.output_device, &resolved, &devices)?;
        if config.strict {
            check_placement(&model, &devices[0])?;
        }
        let names: Vec<String> = devices
            .iter()
            .enumerate()
            .map(|(replica, device)| format!("replica {replica} {}", describe(device)))
            .collect();
        let workers = Workers::start(&names)?;
        log::info!(
            "data parallel on {} ({}): {}",
            if devices.len() == 1 {
                "one device".into()
            } else {
                format!("{} devices", devices.len())
            },
            resolved.reason,
            names.join(", "),
        );
        for warning in &resolved.warnings {
            log::warn!("{warning}");
        }
        let watch = config.limit().map(Watch::start).transpose()?;
        let all_reduce = transport(config.reduction, &devices)?;
        let routes = Arc::new(check_copies(config, &devices, watch.as_ref())?);
        let module = onto(model, &devices[0]);
        Ok(Self {
            module,
            version: next_version(),
            replicas: Replicas::shared(devices.len()),
            shared: Arc::new(Shared {
                ordinals: resolved.ordinals,
                local: devices.iter().all(is_local),
                devices,
                output_device,
                dim: config.dim,
                random_order: config.random_order,
                bucket_bytes: config.bucket_bytes,
                workers,
                meter: Arc::default(),
                watch,
                routes,
                all_reduce,
                #[cfg(feature = "fault-injection")]
                faults: crate::faults::Faults::current(),
                training: Mutex::new(()),
            }),
        })
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
    /// It is called before the step returns, so the optimizer's time is not in it. It may be called from several threads. It
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

/// The devices with the model's autodiff setting, so that data made on them takes part in training as on the model's own.
fn in_context_of(device: &Device, devices: &[Device]) -> Vec<Device> {
    devices
        .iter()
        .map(|other| other.clone().with_autodiff_context_from(device))
        .collect()
}

fn output_device(
    asked: Option<usize>,
    resolved: &Resolved,
    devices: &[Device],
) -> Result<Device, DataParallelError> {
    let Some(asked) = asked else {
        return Ok(devices[0].clone());
    };
    let position = match &resolved.ordinals {
        Some(ordinals) => ordinals.iter().position(|&id| id == asked),
        None => Some(asked),
    };
    position
        .and_then(|position| devices.get(position).cloned())
        .ok_or_else(|| DataParallelError::OutputDevice {
            output_device: asked,
            device_ids: match &resolved.ordinals {
                Some(ordinals) => format!("{ordinals:?}"),
                None => format!("(positions 0 to {})", devices.len() - 1),
            },
        })
}

/// By what an all-reduce between `devices` goes; none where gradients are reduced onto the primary.
fn transport(
    reduction: Reduction,
    devices: &[Device],
) -> Result<Option<Transport>, DataParallelError> {
    let collective = devices.len() > 1 && has_collective(devices);
    match reduction {
        Reduction::Primary => Ok(None),
        Reduction::Auto => {
            Ok((collective && check_distinct(devices).is_ok()).then_some(Transport::Collective))
        }
        Reduction::AllReduce => {
            check_distinct(devices)?;
            Ok(Some(if collective {
                Transport::Collective
            } else {
                Transport::Tree
            }))
        }
    }
}

/// The routes between `devices`, once their copies have been tried where `config` says so.
fn check_copies(
    config: &DataParallelConfig,
    devices: &[Device],
    watch: Option<&Watch>,
) -> Result<Routes, DataParallelError> {
    let mut routes = Routes::new();
    if !config.self_check {
        return Ok(routes);
    }
    let (devices, on_bad_copy) = (devices.to_vec(), config.on_bad_copy);
    let check = move || {
        self_check::check(&devices, &mut routes, on_bad_copy)?;
        Ok(routes)
    };
    match watch {
        None => check(),
        Some(watch) => watch.run(move |_| check()).unwrap_or_else(|_| {
            Err(DataParallelError::TimedOut {
                limit: watch.limit,
                waiting: Vec::new(),
            })
        }),
    }
}

/// `model` on `device`: every parameter initialized and a leaf, tied parameters still tied, and clones elsewhere untouched.
fn onto<M: Module>(model: M, device: &Device) -> M {
    model.visit(&mut Initialize);
    if model.devices().iter().all(|other| other == device) && has_leaves_only(&model) {
        return model;
    }
    let reading = Arc::new(Reading::of(&model, device));
    // Forked too, for tensors that are no parameters: no snapshot sees them.
    let copy = private_copy(&model, reading.traits).fork(device);
    let take = Take {
        reading: &reading,
        device,
        link: Link::Leaf,
        scope: Scope::All,
        traffic: &Traffic::default(),
    };
    take.values(&model).restore(copy)
}

/// Lazy parameters draw their values when first read; reading them here makes all replicas copies of one draw.
struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.base();
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        param.val();
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        param.val();
    }
}
