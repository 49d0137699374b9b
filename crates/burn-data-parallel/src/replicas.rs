//! Replicate and broadcast: the copies of the module that live beside the primary.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::Module;
use burn::tensor::Device;

use crate::broadcast::Broadcast;
use crate::layout::Layout;
use crate::progress::Progress;
use crate::reading::{Reading, Traits};
use crate::snapshot::{Link, Snapshot};
use crate::stats::Traffic;

/// The replicas but the first, which is the primary itself. They persist between steps, and their values are renewed only
/// when the primary's have changed.
#[derive(Debug)]
pub(crate) struct Replicas<M> {
    known: Option<Known>,
    copies: Vec<Shelf<M>>,
}

/// Where a replica is kept between steps.
pub(crate) type Shelf<M> = Arc<Mutex<Option<Kept<M>>>>;

#[derive(Debug)]
pub(crate) struct Kept<M> {
    module: M,
    version: u64,
    reading: Arc<Reading>,
}

/// What was read off the primary at a version, and the layouts of its buckets, made when they are first needed.
#[derive(Clone, Debug)]
struct Known {
    version: u64,
    reading: Arc<Reading>,
    values: Option<Arc<Layout>>,
    gradients: Option<Arc<Layout>>,
}

/// The primary as the replicas are to see it.
pub(crate) struct Source<'a, M> {
    pub(crate) module: &'a M,
    pub(crate) version: u64,
    pub(crate) link: Link,
    pub(crate) bucket_bytes: usize,
    pub(crate) traffic: &'a Traffic,
    pub(crate) progress: &'a Progress,
}

/// A replica for one step, ready but for what its own thread can do.
pub(crate) enum Replica<M> {
    Ready(M),
    /// A copy that was behind, with the values that it is to get. They are on its device, so that no copy between devices is
    /// left to do.
    Behind {
        copy: Kept<M>,
        values: Snapshot,
        shelf: Shelf<M>,
    },
}

impl<M: Module> Kept<M> {
    /// What the last forward left pending in the copy's running statistics is dropped with their cell.
    fn private_module(&self) -> M {
        if changes(self.reading.traits) {
            private_copy(&self.module, self.reading.traits)
        } else {
            self.module.clone()
        }
    }
}

impl<M: Module> Replica<M> {
    /// The replica's module, on the thread of the replica.
    pub(crate) fn module(self) -> M {
        match self {
            Replica::Ready(module) => module,
            Replica::Behind {
                copy,
                values,
                shelf,
            } => {
                let module = values.restore(copy.private_module());
                *lock(&shelf) = Some(Kept {
                    module: module.clone(),
                    ..copy
                });
                module
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while a replica is renewed leaves its shelf empty, so the lock's poison says nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M: Module> Replicas<M> {
    /// Places for all replicas but the first of `count`, for clones of a wrapper to share.
    pub(crate) fn shared(count: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            known: None,
            copies: (1..count).map(|_| Shelf::default()).collect(),
        }))
    }

    /// What `primary`, whose parameters are at `version`, is like; it should be on `device`.
    pub(crate) fn reading(&mut self, primary: &M, version: u64, device: &Device) -> Arc<Reading> {
        self.known(primary, version, device).reading.clone()
    }

    fn known(&mut self, primary: &M, version: u64, device: &Device) -> &mut Known {
        let old = self.known.take();
        let known = match old {
            Some(known) if known.version == version => known,
            old => {
                let reading = Reading::of(primary, device);
                match old {
                    Some(known) if *known.reading == reading => Known { version, ..known },
                    _ => Known {
                        version,
                        reading: Arc::new(reading),
                        values: None,
                        gradients: None,
                    },
                }
            }
        };
        self.known.insert(known)
    }

    /// The layout of the gradients of `source`.
    pub(crate) fn gradient_layout(
        &mut self,
        source: &Source<'_, M>,
        device: &Device,
    ) -> Arc<Layout> {
        let known = self.known(source.module, source.version, device);
        let reading = &known.reading;
        let make = || Arc::new(Layout::of_gradients(reading, source.bucket_bytes));
        known.gradients.get_or_insert_with(make).clone()
    }

    /// The layout of all values of `source`.
    fn value_layout(&mut self, source: &Source<'_, M>, device: &Device) -> Arc<Layout> {
        let known = self.known(source.module, source.version, device);
        let reading = &known.reading;
        let make = || Arc::new(Layout::of_values(reading, source.bucket_bytes));
        known.values.get_or_insert_with(make).clone()
    }

    /// Replicas `0..devices.len()`, with the values of `source`.
    pub(crate) fn at(&mut self, source: &Source<'_, M>, devices: &[Device]) -> Vec<Replica<M>> {
        let reading = self.reading(source.module, source.version, &devices[0]);
        let mut replicas = vec![Replica::Ready(source.module.clone())];
        match source.link {
            Link::Leaf => self.add_leaves(&mut replicas, source, &reading, devices),
            Link::Graph => self.add_linked(&mut replicas, source, &reading, devices),
        }
        replicas
    }

    /// Copies with values of their own.
    fn add_leaves(
        &mut self,
        replicas: &mut Vec<Replica<M>>,
        source: &Source<'_, M>,
        reading: &Arc<Reading>,
        devices: &[Device],
    ) {
        let current = |shelf: &Shelf<M>| match &*lock(shelf) {
            Some(copy) if copy.version == source.version && !changes(reading.traits) => {
                Some(copy.module.clone())
            }
            _ => None,
        };
        let shelves = self.copies[..devices.len() - 1].to_vec();
        let ready: Vec<Option<M>> = shelves.iter().map(current).collect();
        let layout = || self.value_layout(source, &devices[0]);
        let mut values = Broadcast::send(source, reading, layout, devices, |replica| {
            ready[replica - 1].is_none()
        });
        for (index, (ready, shelf)) in ready.iter().zip(shelves).enumerate() {
            let device = &devices[index + 1];
            replicas.push(match ready {
                Some(module) => Replica::Ready(module.clone()),
                None => Replica::Behind {
                    copy: Kept {
                        version: source.version,
                        ..take(&shelf, source, reading, device)
                    },
                    values: values.values(index + 1, device),
                    shelf,
                },
            });
        }
    }

    /// Copies whose values are results of the primary's, for this one call.
    fn add_linked(
        &mut self,
        replicas: &mut Vec<Replica<M>>,
        source: &Source<'_, M>,
        reading: &Arc<Reading>,
        devices: &[Device],
    ) {
        for (shelf, device) in self.copies.iter().zip(&devices[1..]) {
            let copy = take(shelf, source, reading, device);
            let module = copy.private_module();
            *lock(shelf) = Some(copy);
            let values =
                Snapshot::take(source.module, reading, device, source.link, source.traffic);
            replicas.push(Replica::Ready(values.restore(module)));
        }
    }
}

/// The copy that is kept at `shelf`, or a new one where there is none of these parameters.
fn take<M: Module>(
    shelf: &Shelf<M>,
    source: &Source<'_, M>,
    reading: &Arc<Reading>,
    device: &Device,
) -> Kept<M> {
    match lock(shelf).take() {
        Some(copy) if copy.reading.has_parts_of(reading) => Kept {
            reading: reading.clone(),
            ..copy
        },
        _ => Kept {
            module: private_copy(source.module, reading.traits).fork(device),
            // Nobody's: its values come from the primary at some version, but by another way.
            version: u64::MAX,
            reading: reading.clone(),
        },
    }
}

/// In training buffers change inside forward, unseen by the version, so a module that has some is always renewed.
fn changes(traits: Traits) -> bool {
    traits.autodiff && traits.buffers
}

/// A copy of `module` that shares no running state with it, so that it can be moved and changed.
///
/// Burn's `RunningState` is one cell for all clones, and both `fork` and `map` write into that cell, so a plain clone would
/// let a replica overwrite the primary's BatchNorm statistics. `valid` is the one operation of `Module` that makes a new
/// cell; `train` takes back the rest of what it does. The values themselves come from a snapshot afterwards.
/// `tests/behaviour/batch_norm.rs` (`a_plain_clone_still_shares_running_state`) fails when this can go.
pub(crate) fn private_copy<M: Module>(module: &M, traits: Traits) -> M {
    if !traits.buffers {
        // Running state is a buffer, so there is none; and tensors that are no parameters keep their autodiff setting.
        return module.clone();
    }
    let copy = module.valid();
    if traits.autodiff { copy.train() } else { copy }
}
