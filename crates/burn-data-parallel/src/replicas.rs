//! Replicate and broadcast: the copies of the module that live beside the primary.

use burn::module::{Module, ParamId};
use burn::tensor::Device;

use crate::bucket::Packed;
use crate::inspect::{Traits, signature};
use crate::layout::Layout;
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
        let mut packed = None;
        let mut modules = vec![source.module.clone()];
        for (slot, device) in self.copies.iter_mut().zip(&devices[1..]) {
            // Buffers change inside forward, unseen by the version, so a module that has some is always renewed.
            let current =
                matches!(slot, Some(copy) if copy.version == source.version) && !traits.buffers;
            if !current {
                let parts = signature(source.module);
                let module = match slot.take() {
                    Some(copy) if copy.signature == parts && !traits.buffers => copy.module,
                    _ => private_copy(source.module, traits),
                };
                *slot = Some(Copy {
                    module: match source.link {
                        Link::Leaf => {
                            broadcast(source, module, device, device == &devices[0], &mut packed)
                        }
                        // The values come below, for this one call.
                        Link::Graph => module,
                    },
                    // Without values of its own the copy is of no version.
                    version: match source.link {
                        Link::Leaf => source.version,
                        Link::Graph => u64::MAX,
                    },
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

/// `module` with the primary's values on `device`. Buckets are packed once, for the first device that needs them.
fn broadcast<M: Module>(
    source: &Source<'_, M>,
    module: M,
    device: &Device,
    same_device: bool,
    packed: &mut Option<(Layout, Packed)>,
) -> M {
    if same_device {
        // Nothing has to move: the copy shares the memory of the primary's values.
        return Snapshot::take(source.module, device, Link::Leaf, source.traffic).restore(module);
    }
    let (layout, packed) = packed.get_or_insert_with(|| {
        let layout = Layout::of_values(source.module, source.bucket_bytes);
        let packed = Packed::values(source.module, &layout);
        (layout, packed)
    });
    Snapshot::take_packed(source.module, device, layout, packed, source.traffic).restore(module)
}

/// A copy of `module` that shares no running state with it.
///
/// Burn's `RunningState` is one cell for all clones, and both `fork` and `map` write into that cell, so a plain clone would
/// let a replica overwrite the primary's BatchNorm statistics. `valid` is the one operation of `Module` that makes a new
/// cell; `train` takes back the rest of what it does. The values themselves come from a snapshot afterwards.
/// `tests/behaviour/batch_norm.rs` (`a_plain_clone_still_shares_running_state`) fails when this can go.
pub(crate) fn private_copy<M: Module>(module: &M, traits: Traits) -> M {
    let copy = module.valid();
    if traits.autodiff { copy.train() } else { copy }
}
