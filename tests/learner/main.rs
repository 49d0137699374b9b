//! burn-train: a wrapped model under the `Learner`, and a bare one under `DataParallelStrategy`, against bare Burn.

mod accumulation;
mod checkpoints;
mod compare;
mod counts;
mod evaluator;
mod failure;
mod features;
mod launch;
mod models;
mod optimize;
mod outputs;
mod placement;
mod remote;
mod replicas;
mod step_stats;
mod watch;
