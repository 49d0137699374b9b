//! Configuration.

use std::time::Duration;

use burn::config::Config;
use burn::module::Module;
use serde::{Deserialize, Serialize};

use crate::data_parallel::DataParallel;
use crate::device_ids::DeviceIds;
use crate::error::DataParallelError;
use crate::self_check::OnBadCopy;

/// What replicas do when the model draws random numbers in forward (dropout, noise, randomized activations).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RandomOrder {
    /// Forwards of a model that has such layers take turns; all other models run side by side. A seed repeats a run bit for
    /// bit, because Burn's backends keep one random generator a process. A dropout layer counts whatever its probability, which
    /// a visit of the module does not show: for one of 0, `Free` repeats a run as well.
    #[default]
    Auto,
    /// Forwards always take turns: for a closure that draws numbers itself.
    InTurn,
    /// Forwards take no turns for the sake of random numbers: faster, and a seed no longer repeats a run. (Those of
    /// [`forward`](crate::DataParallel::forward) in training mode take turns all the same, since they are parts of one graph.)
    Free,
}

/// How a [`ReplicatedOptimizer`](crate::ReplicatedOptimizer) brings gradients together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reduction {
    /// `AllReduce` on several NVIDIA cards with NCCL, `Primary` elsewhere.
    #[default]
    Auto,
    /// Sum onto the primary along a tree, step there, broadcast parameters. Works on every backend, with repeated devices too.
    Primary,
    /// Sum onto every replica, and step on each. By Burn's collective where the devices have one (NCCL), else by copies along
    /// a tree; needs distinct devices.
    AllReduce,
}

/// Configuration of a [`DataParallel`], which can be saved and loaded like any Burn [`Config`].
///
/// ```
/// use burn::config::Config;
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use burn_data_parallel::DataParallelConfig;
///
/// let model = LinearConfig::new(4, 2).init(&Device::flex().autodiff());
/// let config = DataParallelConfig::new()
///     .with_device_ids(vec![0, 0])
///     .with_allow_repeated(true)
///     .with_output_device(0)
///     .with_dim(0);
/// let model = config.init(model)?;
/// assert_eq!(model.replica_count(), 2);
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DataParallelConfig {
    /// Ordinals of the devices to use, the first being the primary; none means all visible devices.
    pub device_ids: Option<Vec<usize>>,
    /// Ordinal of the device on which outputs are gathered; none means the primary.
    pub output_device: Option<usize>,
    /// The dim along which batches are split and outputs gathered.
    pub dim: usize,
    /// Refuse a model whose parameters are not all on the primary, instead of moving it there.
    pub strict: bool,
    /// Accept a device id more than once: several replicas on one device.
    pub allow_repeated: bool,
    /// Whether forwards that draw random numbers take turns.
    pub random_order: RandomOrder,
    /// Bytes of a bucket: parameters and gradients move between devices in flat buffers of about this size (25 MiB).
    pub bucket_bytes: usize,
    /// Seconds that a step may take before it is given up; none means that it is waited for as long as it takes.
    pub time_limit_seconds: Option<f64>,
    /// Try copies between all pairs of distinct devices when the wrapper is made, once a pair and process.
    pub self_check: bool,
    /// What to do where copies between two devices go wrong.
    pub on_bad_copy: OnBadCopy,
    /// How a [`ReplicatedOptimizer`](crate::ReplicatedOptimizer) brings gradients together; `train_step` always gives them on
    /// the primary.
    pub reduction: Reduction,
}

impl Default for DataParallelConfig {
    fn default() -> Self {
        Self {
            device_ids: None,
            output_device: None,
            dim: 0,
            strict: false,
            allow_repeated: false,
            random_order: RandomOrder::Auto,
            bucket_bytes: 25 << 20,
            time_limit_seconds: None,
            self_check: true,
            on_bad_copy: OnBadCopy::Error,
            reduction: Reduction::Auto,
        }
    }
}

impl Config for DataParallelConfig {}

impl DataParallelConfig {
    /// All visible devices, dim 0, outputs on the primary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Set [`device_ids`](Self::device_ids).
    pub fn with_device_ids(mut self, device_ids: impl Into<Vec<usize>>) -> Self {
        self.device_ids = Some(device_ids.into());
        self
    }

    /// Set [`output_device`](Self::output_device).
    pub fn with_output_device(mut self, output_device: usize) -> Self {
        self.output_device = Some(output_device);
        self
    }

    /// Set [`dim`](Self::dim).
    pub fn with_dim(mut self, dim: usize) -> Self {
        self.dim = dim;
        self
    }

    /// Set [`strict`](Self::strict).
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Set [`allow_repeated`](Self::allow_repeated).
    pub fn with_allow_repeated(mut self, allow_repeated: bool) -> Self {
        self.allow_repeated = allow_repeated;
        self
    }

    /// Set [`random_order`](Self::random_order).
    pub fn with_random_order(mut self, random_order: RandomOrder) -> Self {
        self.random_order = random_order;
        self
    }

    /// Set [`bucket_bytes`](Self::bucket_bytes).
    pub fn with_bucket_bytes(mut self, bucket_bytes: usize) -> Self {
        self.bucket_bytes = bucket_bytes;
        self
    }

    /// Give a step up that has not ended after `limit`, with a `TimedOut` error that says which replica is in which phase.
    ///
    /// The step is undone when it ends after all. Steps of the wrapper and its clones then run one after another on a thread
    /// of their own, so that the caller can leave. Threads cannot be stopped: where a device never answers, every later step
    /// is a `TimedOut` error too. To load other weights after a `TimedOut`, wait until a step has succeeded: the late step puts
    /// running statistics back when it ends.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        // Longer than any program runs, and still a `Duration` when it is read back.
        let longest = Duration::from_secs(u64::MAX / 2);
        self.time_limit_seconds = Some(limit.min(longest).as_secs_f64());
        self
    }

    /// Set [`self_check`](Self::self_check).
    pub fn with_self_check(mut self, self_check: bool) -> Self {
        self.self_check = self_check;
        self
    }

    /// Set [`on_bad_copy`](Self::on_bad_copy).
    pub fn with_on_bad_copy(mut self, on_bad_copy: OnBadCopy) -> Self {
        self.on_bad_copy = on_bad_copy;
        self
    }

    /// Set [`reduction`](Self::reduction).
    pub fn with_reduction(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// [`device_ids`](Self::device_ids), or all visible devices.
    pub(crate) fn ids(&self) -> DeviceIds {
        match &self.device_ids {
            Some(ids) => DeviceIds::from(ids.clone()),
            None => DeviceIds::all(),
        }
    }

    /// The time limit of a step; [`check`](Self::check) has seen that it is one.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.time_limit_seconds?).ok()
    }

    pub(crate) fn check(&self) -> Result<(), DataParallelError> {
        if self.bucket_bytes == 0 {
            return Err(DataParallelError::InvalidConfig {
                option: "bucket_bytes",
                value: "0".into(),
                remedy: "give at least 1; 26214400 (25 MiB) is the default",
            });
        }
        match self.time_limit_seconds {
            Some(seconds) if self.limit().is_none_or(|limit| limit.is_zero()) => {
                Err(DataParallelError::InvalidConfig {
                    option: "time_limit_seconds",
                    value: seconds.to_string(),
                    remedy: "give a number of seconds above 0, or none for no limit",
                })
            }
            _ => Ok(()),
        }
    }

    /// Wrap `model` by this configuration.
    ///
    /// # Errors
    ///
    /// As [`DataParallel::new`] (`RepeatedDevice` for `Reduction::AllReduce` too), and `OutputDevice` where the output device is not one of the device ids, `InvalidConfig` for
    /// a bucket of 0 bytes or a time limit that is none, and `Placement` where [`strict`](Self::strict) is set and a parameter
    /// is not on the primary.
    pub fn init<M: Module>(&self, model: M) -> Result<DataParallel<M>, DataParallelError> {
        self.init_on(model, self.ids())
    }

    /// Wrap `model` by this configuration on these devices instead of [`device_ids`](Self::device_ids).
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init).
    pub fn init_on<M: Module>(
        &self,
        model: M,
        device_ids: impl Into<DeviceIds>,
    ) -> Result<DataParallel<M>, DataParallelError> {
        DataParallel::build(model, device_ids.into(), self)
    }
}
