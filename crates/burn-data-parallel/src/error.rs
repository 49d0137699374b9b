//! The one error type of this crate.

use burn_visible_devices::VisibilityError;

/// The phase of a step in which a failure happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Copying parameters and buffers from the primary to the replicas.
    Broadcast,
    /// Splitting the batch and moving each shard to its replica's device.
    Scatter,
    /// Running the closure on a replica.
    Apply,
    /// Running backward on a replica in [`train_step`](crate::DataParallel::train_step), and packing its gradients.
    Backward,
    /// Putting outputs together on the output device.
    Gather,
    /// Summing gradients.
    Reduce,
    /// The step of an optimizer on a replica ([`ReplicatedOptimizer`](crate::ReplicatedOptimizer)).
    Optimizer,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::Broadcast => "broadcast",
            Phase::Scatter => "scatter",
            Phase::Apply => "apply",
            Phase::Backward => "backward",
            Phase::Gather => "gather",
            Phase::Reduce => "reduce",
            Phase::Optimizer => "the optimizer's step",
        })
    }
}

/// Everything that can go wrong when a [`DataParallel`](crate::DataParallel) is made or used.
///
/// Every message says what was asked, what is there, and what to do. After any of them the model is as it was before the
/// call, and the next call works (as far as the device does).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataParallelError {
    /// The device ids do not fit the visible devices.
    #[error(transparent)]
    Visibility(#[from] VisibilityError),

    /// The list of device ids is empty.
    #[error(
        "the list of device ids is empty, but a model needs at least one device; {available} — name at least one id, or use DeviceIds::all()"
    )]
    NoDevices {
        /// The devices that could have been named.
        available: String,
    },

    /// An id names no device of the model's backend.
    #[error(
        "device id {id} (position {position} of the list) is not there: {available}. Use ids from that list; to run several replicas on one device, ask for it with DeviceIds::repeat(id, replicas)"
    )]
    DeviceNotFound {
        /// The id asked for.
        id: usize,
        /// Its position in the list.
        position: usize,
        /// What there is.
        available: String,
    },

    /// A device stands in the list twice, and repeats were not asked for.
    #[error(
        "device {device} stands at positions {first} and {second} of the list; each device can hold one replica. Remove the repeat, or ask for it with DeviceIds::repeat or DataParallelConfig::with_allow_repeated(true) (collectives such as NCCL refuse repeated devices)"
    )]
    RepeatedDevice {
        /// The device.
        device: String,
        /// Position of its first mention.
        first: usize,
        /// Position of the repeat.
        second: usize,
    },

    /// A count of replicas that is zero or absurd.
    #[error("{replicas} replicas were asked for; ask for 1 to {max}")]
    ReplicaCount {
        /// The count asked for.
        replicas: usize,
        /// The largest count that is accepted.
        max: usize,
    },

    /// Devices of different backends in one list.
    #[error(
        "device {device} (position {position}) is of another backend than the primary {primary}; all replicas of a model run on one backend"
    )]
    MixedBackends {
        /// The odd device.
        device: String,
        /// Its position.
        position: usize,
        /// The primary.
        primary: String,
    },

    /// The model has no parameter, so its backend is unknown.
    #[error(
        "the model has no parameter, so the ids cannot be looked up on its backend; give devices instead: DeviceIds::devices([device])"
    )]
    NoParameters,

    /// The backend cannot list its devices, so ordinals mean nothing there.
    #[error(
        "ordinals cannot be looked up on {device}: its backend does not list its devices. Give the devices themselves: DeviceIds::devices([...]), for remote devices from RemoteHost::devices()"
    )]
    CannotEnumerate {
        /// The model's device.
        device: String,
    },

    /// The output device is not one of the device ids.
    #[error(
        "output device {output_device} is not in the list of device ids {device_ids}; choose one of them (the default is the primary, the first)"
    )]
    OutputDevice {
        /// The output device asked for.
        output_device: usize,
        /// The ids in use.
        device_ids: String,
    },

    /// A configuration value out of its range.
    #[error("{option} = {value} is not accepted: {remedy}")]
    InvalidConfig {
        /// The option's name.
        option: &'static str,
        /// The value given.
        value: String,
        /// What is accepted.
        remedy: &'static str,
    },

    /// A parameter is not on the primary.
    #[error(
        "parameter `{path}` is on {device}, but the primary is {primary}. Move the model there first (`model.fork(&device)`), or put the parameter's device first in the list; without strict placement DataParallel::new moves the model itself"
    )]
    Placement {
        /// Path of the parameter in the module tree.
        path: String,
        /// Where it is.
        device: String,
        /// Where it must be.
        primary: String,
    },

    /// The batch's tensors disagree about the number of rows.
    #[error(
        "the batch does not split: `{first}` has {first_rows} rows along dim {first_dim}, `{second}` has {second_rows} along dim {second_dim}. Mark a field that is not split with #[scatter(shared)], or name its own dim with #[scatter(dim = ...)]"
    )]
    UnequalRows {
        /// Path of the tensor that set the number of rows.
        first: String,
        /// Its rows.
        first_rows: usize,
        /// Its scatter dim.
        first_dim: usize,
        /// Path of the tensor that disagrees.
        second: String,
        /// Its rows.
        second_rows: usize,
        /// Its scatter dim.
        second_dim: usize,
    },

    /// Two parts of the batch were cut before, in different ways.
    #[error(
        "the batch does not split: `{first}` was cut into shards of {first_sizes:?} rows, `{second}` into {second_sizes:?}; cut both the same way"
    )]
    UnequalShards {
        /// Path of the first.
        first: String,
        /// Rows of its shards.
        first_sizes: Vec<usize>,
        /// Path of the other.
        second: String,
        /// Rows of its shards.
        second_sizes: Vec<usize>,
    },

    /// A part of the batch was cut before, into shards of which one has no rows, or into none.
    #[error(
        "`{path}` was cut into shards of {sizes:?} rows; each must have at least one. Leave empty shards out: fewer shards than replicas use fewer replicas"
    )]
    EmptyShard {
        /// Path of the part.
        path: String,
        /// Rows of its shards.
        sizes: Vec<usize>,
    },

    /// A tensor of the batch does not have the scatter dim.
    #[error(
        "`{path}` has shape {shape:?}, so there is no dim {dim} to split. Choose another dim with DataParallelConfig::with_dim or #[scatter(dim = ...)], or mark it #[scatter(shared)]"
    )]
    NoScatterDim {
        /// Path of the tensor in the batch.
        path: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The dim asked for.
        dim: usize,
    },

    /// An implementation of [`Scatter`](crate::Scatter) gave another number of shards than the plan asks for.
    #[error(
        "the batch was cut into {given} shards, but {expected} replicas run; `Scatter::into_shards` must give one shard for each of the plan's"
    )]
    ShardCount {
        /// Shards given.
        given: usize,
        /// Shards asked for.
        expected: usize,
    },

    /// Outputs of the replicas do not fit together.
    #[error(
        "output `{path}` cannot be gathered along dim {dim}: replica 0 gave shape {first:?}, replica {replica} gave {other:?}. Only dim {dim} may differ; pad the outputs to one size, or gather along another dim with #[gather(dim = ...)]"
    )]
    GatherShapes {
        /// Path of the tensor in the output.
        path: String,
        /// The gather dim.
        dim: usize,
        /// The replica that differs from replica 0.
        replica: usize,
        /// Shape on replica 0.
        first: Vec<usize>,
        /// Shape on that replica.
        other: Vec<usize>,
    },

    /// An output tensor does not have the gather dim.
    #[error(
        "output `{path}` has shape {shape:?}, so there is no dim {dim} to gather along; name its dim with #[gather(dim = ...)], or return Mean(tensor), Sum(tensor) or PerReplica(vec![tensor])"
    )]
    NoGatherDim {
        /// Path of the tensor in the output.
        path: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The gather dim.
        dim: usize,
    },

    /// A replica returned one value for a shard of several rows: a loss, by the look of it.
    #[error(
        "output `{path}` is a single value for a shard of {rows} rows, so gathering it would make a vector of one value per replica. Return Mean(tensor) for the mean weighted by rows, Sum(tensor) for the sum, or PerReplica(vec![tensor]) for the vector"
    )]
    ScalarOutput {
        /// Path of the tensor in the output.
        path: String,
        /// Rows of the shard.
        rows: usize,
    },

    /// Replicas returned values of different structure or different plain values.
    #[error(
        "output `{path}` differs between replicas in a way that cannot be gathered: {detail}. Return PerReplica(vec![value]) to get one per replica"
    )]
    GatherMismatch {
        /// Path of the value in the output.
        path: String,
        /// What differs.
        detail: String,
    },

    /// The loss is not one value.
    #[error(
        "replica {replica} returned a loss of {elements} elements; reduce it to one value, e.g. loss.mean()"
    )]
    LossShape {
        /// The replica.
        replica: usize,
        /// Elements of its loss.
        elements: usize,
    },

    /// The loss does not depend on a tracked tensor.
    #[error(
        "the loss on replica {replica} ({device}) is not part of an autodiff graph, so there are no gradients. Create the model on an autodiff device (`device.autodiff()`) and compute the loss from the replica that the closure is given"
    )]
    NotTrainable {
        /// The replica.
        replica: usize,
        /// Its device.
        device: String,
    },

    /// Some replicas returned a sum and others a mean, or weights that are not usable.
    #[error("the replicas' losses cannot be combined: {detail}")]
    LossWeights {
        /// What is wrong with them.
        detail: String,
    },

    /// A replica panicked, returned an error, or its device failed.
    #[error("replica {replica} on {device} failed in {phase}: {cause}")]
    Replica {
        /// The replica, by position in the list of device ids.
        replica: usize,
        /// Its device.
        device: String,
        /// What it was doing.
        phase: Phase,
        /// The panic message or error text.
        cause: String,
        /// The error that the closure returned, where it returned one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },

    /// Copies between two devices do not arrive as they were sent.
    #[error(
        "the self-check failed: copies from {from} to {into} go wrong ({problem}), so training on both would give wrong numbers without a word. Use device ids without one of them; or let such copies go through the host: DataParallelConfig::with_on_bad_copy(OnBadCopy::HostStaged); NCCL_P2P_DISABLE=1 in the environment helps where peer access is broken"
    )]
    SelfCheck {
        /// The device that sent.
        from: String,
        /// The device that received.
        into: String,
        /// What was wrong.
        problem: String,
    },

    /// `forward` in training mode between devices whose copies go through the host.
    #[error(
        "copies from {from} to {into} go through the host, where autodiff cannot follow them, so `forward` in training mode would lose gradients; use `train_step`, which reduces gradients itself"
    )]
    StagedGraph {
        /// The device that sends.
        from: String,
        /// The device that receives.
        into: String,
    },

    /// A step did not end within the time limit ([`DataParallelConfig::with_time_limit`](crate::DataParallelConfig)).
    #[error(
        "no end after {limit:?}, the time limit of a step: {}. The step was given up, and the model is as before it. A replica that is only slow needs a longer limit (the first step of a GPU tunes its kernels, which takes a minute and more); one that is stuck keeps its thread, and every later step fails like this, until the program is started anew without its device",
        waiting_text(waiting)
    )]
    TimedOut {
        /// The limit.
        limit: std::time::Duration,
        /// The replicas that had not ended: of this step, or of an earlier one that is still in the way.
        waiting: Vec<Waiting>,
    },

    /// The wrapper was called from inside a replica's closure.
    #[error(
        "{call} was called from inside a replica's closure; call the replica that the closure is given, not the wrapper"
    )]
    Nested {
        /// The method.
        call: &'static str,
    },

    /// The operating system gave no thread for a replica.
    #[error("no worker thread could be started for replica {replica}: {cause}")]
    Thread {
        /// The replica.
        replica: usize,
        /// The operating system's reason.
        cause: std::io::Error,
    },
}

/// A replica that had not ended at the time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The replica, by position in the list of device ids.
    pub replica: usize,
    /// Its device.
    pub device: String,
    /// What it was doing.
    pub phase: Phase,
}

fn waiting_text(waiting: &[Waiting]) -> String {
    if waiting.is_empty() {
        return "all replicas had ended, and the results were being put together".into();
    }
    let parts = waiting.iter().map(|waiting| {
        let Waiting {
            replica,
            device,
            phase,
        } = waiting;
        format!("replica {replica} on {device} is still in {phase}")
    });
    parts.collect::<Vec<_>>().join(", ")
}
