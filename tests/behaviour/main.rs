//! What `DataParallel` promises, one behaviour a file. Several replicas share the one flex device here; three devices that
//! are distinct are in `tests/distinct_devices.rs`.

mod compare;
mod models;

mod equivalence;
mod failure;
mod uneven;
