//! What `DataParallel` promises, one behaviour a file. Several replicas share the one flex device here; three devices that
//! are distinct are in `tests/distinct_devices`.

mod compare;
mod models;

mod accumulation;
mod any_config;
mod batch_norm;
mod burn_faults;
mod checkpointing;
mod determinism;
mod device_ids;
mod display;
mod dropout;
mod equivalence;
mod failure;
#[cfg(feature = "fault-injection")]
mod failure_phases;
mod logging;
mod on_step;
mod parameters;
mod pytorch_checklist;
mod records;
#[cfg(feature = "fault-injection")]
mod replicated_optimizer;
#[cfg(feature = "dataset")]
mod sharded;
mod stores;
mod structures;
mod threads;
#[cfg(feature = "fault-injection")]
mod time_limit;
mod uneven;
mod valid;
