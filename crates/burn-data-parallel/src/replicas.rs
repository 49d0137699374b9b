//! Replicate and broadcast: the copies of the module that live beside the primary.

use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::Device;

use crate::broadcast::Broadcast;
use crate::kept::{Found, Kept, Shelf, current, has_own_buffers, lock, take};
use crate::layout::Layout;
use crate::progress::Progress;
use crate::reading::Reading;
use crate::snapshot::{Link, Scope, Snapshot, Take};
use crate::stats::Traffic;

/// The replicas but the first, which is the primary itself. They persist between steps, and their values are renewed only
/// when the primary's have changed.
#[derive(Debug)]
pub(crate) struct Replicas<M> {
    known: Option<Known>,
    copies: Vec<Shelf<M>>,
}

/// What was read off the primary at a version, and the layouts of its buckets, made when they are first needed.
#[derive(Clone, Debug)]
struct Known {
    version: u64,
    reading: Arc<Reading>,
    values: Option<Arc<Layout>>,
    buffers: Option<Arc<Layout>>,
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
                let before = old.as_ref().map(|known| &*known.reading);
                let reading = Reading::of(primary, device, before);
                match old {
                    Some(known) if *known.reading == reading => Known { version, ..known },
                    _ => Known {
                        version,
                        reading: Arc::new(reading),
                        values: None,
                        buffers: None,
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

    /// The layout of the values of `source`.
    fn value_layout(
        &mut self,
        source: &Source<'_, M>,
        scope: Scope,
        device: &Device,
    ) -> Arc<Layout> {
        let known = self.known(source.module, source.version, device);
        let reading = &known.reading;
        let (layout, of): (_, fn(&Reading, usize) -> Layout) = match scope {
            Scope::All => (&mut known.values, Layout::of_values),
            Scope::Buffers => (&mut known.buffers, Layout::of_buffers),
        };
        let make = || Arc::new(of(reading, source.bucket_bytes));
        layout.get_or_insert_with(make).clone()
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
        let shelves = self.copies[..devices.len() - 1].to_vec();
        let found: Vec<Found<M>> = (1..)
            .zip(shelves.iter().zip(&devices[1..]))
            .map(|(replica, (shelf, device))| {
                source.progress.turn_to(replica);
                let current = current(shelf, source.version, reading);
                current.map_or_else(
                    || Found::Behind(take(shelf, source, reading, device)),
                    Found::Current,
                )
            })
            .collect();
        // Where parameters are current, a training step has changed buffers alone.
        let lacks_buffers_alone = |found: &Found<M>| matches!(found, Found::Behind(copy) if copy.version == source.version);
        let scope = if has_own_buffers(reading) && found.iter().all(lacks_buffers_alone) {
            Scope::Buffers
        } else {
            Scope::All
        };
        let layout = || self.value_layout(source, scope, &devices[0]);
        let mut values = Broadcast::send(source, reading, scope, layout, devices, |replica| {
            matches!(found[replica - 1], Found::Behind(_))
        });
        for (index, (found, shelf)) in found.into_iter().zip(shelves).enumerate() {
            replicas.push(match found {
                Found::Current(module) => Replica::Ready(module),
                Found::Behind(copy) => Replica::Behind {
                    copy: Kept {
                        version: source.version,
                        ..copy
                    },
                    values: values.values(index + 1, &devices[index + 1]),
                    shelf,
                },
            });
        }
    }

    /// The copies of replicas `1..count`, if all hold the values of `version`.
    pub(crate) fn copies(&self, count: usize, version: u64) -> Option<Vec<Kept<M>>> {
        let shelves = self.copies[..count - 1].iter();
        let copy = |shelf: &Shelf<M>| {
            let kept = lock(shelf);
            kept.as_ref()
                .filter(|kept| kept.version == version)
                .cloned()
        };
        shelves.map(copy).collect()
    }

    /// Keep `copies` for replicas 1 and up.
    pub(crate) fn keep(&self, copies: impl Iterator<Item = Kept<M>>) {
        for (shelf, copy) in self.copies.iter().zip(copies) {
            *lock(shelf) = Some(copy);
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
        for (replica, (shelf, device)) in (1..).zip(self.copies.iter().zip(&devices[1..])) {
            source.progress.turn_to(replica);
            let copy = take(shelf, source, reading, device);
            let module = copy.private_module();
            *lock(shelf) = Some(copy);
            let take = Take {
                reading,
                device,
                link: source.link,
                scope: Scope::All,
                traffic: source.traffic,
            };
            let values = take.values(source.module);
            replicas.push(Replica::Ready(values.restore(module)));
        }
    }
}
