//! burn-train: the `Learner` trains a wrapped model, or a bare one by a strategy.

mod epoch;
mod outputs;
mod step;
mod strategy;

pub use strategy::DataParallelStrategy;
