//! Multi-device data parallelism for [Burn](https://burn.dev): wrap a model, and the same training loop runs on every GPU of
//! the host.
//!
//! This crate re-exports [`burn_data_parallel`] (the wrapper) and [`burn_visible_devices`] (which cards a process may use).

pub use burn_data_parallel::*;
/// Which GPUs a process may use, in which order.
pub use burn_visible_devices as visible;

/// The guide's snippets, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
struct Guide;
