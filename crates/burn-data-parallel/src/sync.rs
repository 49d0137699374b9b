//! What threads meet by, in one place: `checks/interleavings` puts shuttle's in its stead, and tries orders of execution.

pub(crate) use std::sync::{Arc, Condvar, Mutex, PoisonError, atomic, mpsc};
pub(crate) use std::{thread, thread_local};
