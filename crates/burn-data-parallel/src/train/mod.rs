//! burn-train: the `Learner` trains a wrapped model, or a bare one by a strategy.

mod epoch;
mod metric;
mod outputs;
mod step;
mod strategy;

pub use metric::StepStatsMetric;
pub use strategy::DataParallelStrategy;
