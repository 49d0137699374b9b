//! Faults on purpose: tests make a replica fail, be slow or never answer in any phase of a step, and copies go wrong.

use std::cell::RefCell;
use std::sync::Arc;

use burn::tensor::Device;

use crate::error::Phase;

/// What goes wrong, and where.
pub trait Fault: Send + Sync {
    /// `replica` enters `phase`, on the thread that does its work: do nothing, sleep, block, or panic.
    fn enter(&self, _replica: usize, _phase: Phase) {}

    /// Whether a copy from one device to another arrives with other values.
    fn corrupts(&self, _from: &Device, _into: &Device) -> bool {
        false
    }
}

#[derive(Clone)]
pub(crate) struct Faults(Arc<dyn Fault>);

thread_local! {
    static CURRENT: RefCell<Option<Faults>> = const { RefCell::new(None) };
}

/// Run `make`; wrappers that it makes on this thread, and their clones, suffer from `fault`.
pub fn with<R>(fault: impl Fault + 'static, make: impl FnOnce() -> R) -> R {
    let before = CURRENT.replace(Some(Faults(Arc::new(fault))));
    let made = make();
    CURRENT.set(before);
    made
}

impl Faults {
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(crate) fn enter(&self, replica: usize, phase: Phase) {
        self.0.enter(replica, phase);
    }

    pub(crate) fn corrupts(&self, from: &Device, into: &Device) -> bool {
        self.0.corrupts(from, into)
    }
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}
