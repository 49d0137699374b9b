//! Replicate and broadcast: the copies of the module that live beside the primary.

use burn::module::{Module, ParamId};
use burn::tensor::Device;

use crate::inspect::{Traits, signature};
use crate::snapshot::{Link, Snapshot};

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

impl<M: Module> Replicas<M> {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            traits: None,
            copies: (1..count).map(|_| None).collect(),
        }
    }

    /// What `primary`, whose parameters are at `version`, is like.
    pub(crate) fn traits(&mut self, primary: &M, version: u64) -> Traits {
        match self.traits {
            Some((seen, traits)) if seen == version => traits,
            _ => self.traits.insert((version, Traits::of(primary))).1,
        }
    }

    /// Modules for replicas `0..devices.len()`, at `version`.
    pub(crate) fn at(
        &mut self,
        primary: &M,
        version: u64,
        devices: &[Device],
        link: Link,
    ) -> Vec<M> {
        let traits = self.traits(primary, version);
        let mut modules = vec![primary.clone()];
        for (slot, device) in self.copies.iter_mut().zip(&devices[1..]) {
            let copy = Self::renew(slot, primary, version, device, traits);
            modules.push(match link {
                Link::Leaf => copy.module.clone(),
                Link::Graph => {
                    Snapshot::take(primary, device, Link::Graph).restore(copy.module.clone())
                }
            });
        }
        modules
    }

    fn renew<'a>(
        slot: &'a mut Option<Copy<M>>,
        primary: &M,
        version: u64,
        device: &Device,
        traits: Traits,
    ) -> &'a Copy<M> {
        // Buffers change inside forward, unseen by the version, so a module that has some is always renewed.
        let current = matches!(slot, Some(copy) if copy.version == version) && !traits.buffers;
        if !current {
            let parts = signature(primary);
            let module = match slot.take() {
                Some(copy) if copy.signature == parts && !traits.buffers => copy.module,
                _ => private_copy(primary, traits),
            };
            *slot = Some(Copy {
                module: Snapshot::take(primary, device, Link::Leaf).restore(module),
                version,
                signature: parts,
            });
        }
        slot.as_ref().expect("the slot was filled just above")
    }
}

/// A copy of `module` that shares no running state with it.
///
/// Burn's `RunningState` is one cell for all clones, and both `fork` and `map` write into that cell, so a plain clone would
/// let a replica overwrite the primary's BatchNorm statistics. `valid` is the one operation of `Module` that makes a new
/// cell; `train` takes back the rest of what it does. The values themselves come from a snapshot afterwards.
/// `tests/batch_norm.rs` (`a_plain_clone_still_shares_running_state`) fails when this can go.
pub(crate) fn private_copy<M: Module>(module: &M, traits: Traits) -> M {
    let copy = module.valid();
    if traits.autodiff { copy.train() } else { copy }
}
