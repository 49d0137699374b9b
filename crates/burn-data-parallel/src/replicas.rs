//! Replicate and broadcast: the copies of the module that live beside the primary.

use burn::module::{Module, ParamId};
use burn::tensor::Device;

use crate::bucket::Packed;
use crate::inspect::{Traits, signature};
use crate::layout::Layout;
use crate::schedule::{Transfer, broadcast_tree};
use crate::snapshot::{Link, Snapshot};
use crate::stats::Traffic;

/// The replicas but the first, which is the primary itself. They persist between steps, and their values are renewed only
/// when the primary's have changed.
#[derive(Debug)]
pub(crate) struct Replicas<M> {
    traits: Option<(u64, Traits)>,
    copies: Vec<Option<Copy<M>>>,
}

#[derive(Debug)]
struct Copy<M> {
    module: M,
    version: u64,
    signature: Vec<ParamId>,
}

/// The primary as the replicas are to see it.
pub(crate) struct Source<'a, M> {
    pub(crate) module: &'a M,
    pub(crate) version: u64,
    pub(crate) link: Link,
    pub(crate) bucket_bytes: usize,
    pub(crate) traffic: &'a Traffic,
}

impl<M: Module> Replicas<M> {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            traits: None,
            copies: (1..count).map(|_| None).collect(),
        }
    }

    /// What `primary`, whose parameters are at `version`, is like; it should be on `device`.
    pub(crate) fn traits(&mut self, primary: &M, version: u64, device: &Device) -> Traits {
        match self.traits {
            Some((seen, traits)) if seen == version => traits,
            _ => self.traits.insert((version, Traits::of(primary, device))).1,
        }
    }

    /// Modules for replicas `0..devices.len()`, with the values of `source`.
    pub(crate) fn at(&mut self, source: &Source<'_, M>, devices: &[Device]) -> Vec<M> {
        let traits = self.traits(source.module, source.version, &devices[0]);
        // In training buffers change inside forward, unseen by the version, so a module that has some is always renewed.
        let changing = traits.autodiff && traits.buffers;
        let is_stale = |slot: &Option<Copy<M>>| {
            changing || !matches!(slot, Some(copy) if copy.version == source.version)
        };
        let mut stale: Vec<bool> = self.copies.iter().map(is_stale).collect();
        stale.truncate(devices.len() - 1);
        let mut values = match source.link {
            Link::Leaf => Broadcast::new(source, devices, &stale),
            Link::Graph => Broadcast::default(),
        };
        let mut modules = vec![source.module.clone()];
        for (index, slot) in self.copies.iter_mut().take(stale.len()).enumerate() {
            let device = &devices[index + 1];
            if stale[index] {
                let parts = signature(source.module);
                let module = match slot.take() {
                    // What the last forward left pending in the replica's own statistics is dropped with their cell.
                    Some(copy) if copy.signature == parts && changing => {
                        private_copy(&copy.module, traits)
                    }
                    Some(copy) if copy.signature == parts => copy.module,
                    _ => private_copy(source.module, traits).fork(device),
                };
                let (module, version) = match source.link {
                    Link::Leaf => (
                        values.put_into(module, source, index + 1, device),
                        source.version,
                    ),
                    // The values come below, for this one call; without values of its own the copy is of no version.
                    Link::Graph => (module, u64::MAX),
                };
                *slot = Some(Copy {
                    module,
                    version,
                    signature: parts,
                });
            }
            let module = slot.as_ref().map(|copy| copy.module.clone());
            modules.extend(module.map(|module| {
                match source.link {
                    Link::Leaf => module,
                    Link::Graph => {
                        Snapshot::take(source.module, device, Link::Graph, source.traffic)
                            .restore(module)
                    }
                }
            }));
        }
        modules
    }
}

/// The primary's values, in buckets, on each device that lacks them.
#[derive(Default)]
struct Broadcast {
    layout: Layout,
    packed: Vec<Option<Packed>>,
}

impl Broadcast {
    /// Pack the values and send them out, as a tree where every replica needs them. On the primary's own device nothing is
    /// packed: a copy there shares the memory of the primary's values.
    fn new<M: Module>(source: &Source<'_, M>, devices: &[Device], stale: &[bool]) -> Self {
        let elsewhere = |replica: usize| devices[replica] != devices[0];
        let wanted = |replica: usize| stale[replica - 1] && elsewhere(replica);
        if !(1..devices.len()).any(wanted) {
            return Self::default();
        }
        let layout = Layout::of_values(source.module, source.bucket_bytes);
        let mut packed: Vec<Option<Packed>> = vec![None; devices.len()];
        packed[0] = Some(Packed::values(source.module, &layout));
        let tree = if (1..devices.len()).all(wanted) {
            broadcast_tree(devices.len())
        } else {
            let star = (1..devices.len()).filter(|&into| wanted(into));
            star.map(|into| Transfer { from: 0, into }).collect()
        };
        for Transfer { from, into } in tree {
            packed[into] = packed[from]
                .as_ref()
                .map(|packed| packed.to_device(&devices[into], source.traffic));
        }
        Self { layout, packed }
    }

    fn put_into<M: Module>(
        &mut self,
        module: M,
        source: &Source<'_, M>,
        replica: usize,
        device: &Device,
    ) -> M {
        match self.packed.get_mut(replica).and_then(Option::take) {
            Some(packed) => {
                Snapshot::take_packed(source.module, device, &self.layout, packed, source.traffic)
            }
            None => Snapshot::take(source.module, device, Link::Leaf, source.traffic),
        }
        .restore(module)
    }
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
