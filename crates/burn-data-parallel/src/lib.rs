//! Data parallelism for [Burn](https://burn.dev): wrap a model, keep the loop, train on every device of a list.
//!
//! [`DataParallel`] holds one replica of a model per device. A step scatters the batch, runs the replicas side by side, and
//! gathers outputs or reduces gradients onto the primary, so that N replicas give what one device gives on the whole batch.
//!
//! # Feature flags
//!
//! - Backends, passed through to Burn: `flex` (default), `cuda`, `rocm`, `vulkan`, `wgpu`, `remote`.
//! - `dataset`: batches that Burn's data loaders make straight on the replicas' devices.
//! - `train`: burn-train, so that the `Learner` trains a wrapped model.

mod accumulate;
mod all_reduce;
mod apply;
#[cfg(feature = "dataset")]
mod batcher;
mod broadcast;
mod bucket;
mod config;
mod construction;
mod data_parallel;
mod device_ids;
mod error;
#[cfg(feature = "fault-injection")]
#[doc(hidden)] // for tests: makes steps fail on purpose
pub mod faults;
mod forward;
mod gather;
mod inspect;
mod kept;
mod layout;
mod listing;
mod loss;
mod module;
mod progress;
mod reading;
mod reduce;
mod replicas;
mod replicated_optimizer;
mod routes;
mod running;
mod scatter;
mod schedule;
mod self_check;
mod shards;
mod slot;
mod snapshot;
mod stats;
mod sync;
mod tied;
#[cfg(feature = "train")]
mod train;
mod train_step;
mod turn;
mod undo;
mod watch;
mod weights;
mod workers;

pub use accumulate::Accumulation;
#[cfg(feature = "dataset")]
pub use batcher::ShardedBatcher;
pub use config::{DataParallelConfig, RandomOrder, Reduction};
pub use data_parallel::DataParallel;
pub use device_ids::DeviceIds;
pub use error::{DataParallelError, Phase, Waiting};
pub use gather::{Gather, GatherPlan, Mean, PerReplica, Sum};
pub use loss::{Loss, LossWeight, StepResult};
pub use replicated_optimizer::ReplicatedOptimizer;
pub use scatter::{BatchInspector, Rows, Scatter, Sharded, share};
pub use self_check::OnBadCopy;
pub use shards::{Shards, balanced_sizes};
pub use stats::{PhaseStats, StepStats};
#[cfg(feature = "train")]
pub use train::{DataParallelStrategy, StepStatsMetric};

pub use burn_data_parallel_derive::{Gather, Scatter};
