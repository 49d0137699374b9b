//! Broadcast: the primary's values, on the device of each replica that lacks them.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;

use crate::bucket::Packed;
use crate::error::Phase;
use crate::layout::Layout;
use crate::reading::Reading;
use crate::replicas::Source;
use crate::schedule::{Transfer, broadcast_tree};
use crate::snapshot::{Link, Scope, Snapshot, Take};

pub(crate) struct Broadcast<'a, M> {
    source: &'a Source<'a, M>,
    reading: &'a Arc<Reading>,
    scope: Scope,
    layout: Arc<Layout>,
    packed: Vec<Option<Packed>>,
    /// For replicas on the primary's own device, where nothing is packed: copies there share the memory of the values.
    beside: Option<Snapshot>,
}

impl<'a, M: Module> Broadcast<'a, M> {
    /// Pack the values of `scope`, by `layout`, and send them to the replicas that are `wanted`: as a tree where all are.
    pub(crate) fn send(
        source: &'a Source<'a, M>,
        reading: &'a Arc<Reading>,
        scope: Scope,
        layout: impl FnOnce() -> Arc<Layout>,
        devices: &[Device],
        wanted: impl Fn(usize) -> bool,
    ) -> Self {
        let wanted = |&replica: &usize| wanted(replica) && devices[replica] != devices[0];
        let mut broadcast = Self {
            source,
            reading,
            scope,
            layout: Arc::default(),
            packed: vec![None; devices.len()],
            beside: None,
        };
        let others = 1..devices.len();
        let transfers = if others.clone().all(|replica| wanted(&replica)) {
            broadcast_tree(devices.len())
        } else {
            let star = others.filter(wanted);
            star.map(|into| Transfer { from: 0, into }).collect()
        };
        if transfers.is_empty() {
            return broadcast;
        }
        broadcast.layout = layout();
        broadcast.packed[0] = Some(Packed::values(source.module, &broadcast.layout));
        for Transfer { from, into } in transfers {
            source.progress.serve(into, Phase::Broadcast);
            let sent = broadcast.packed[from].as_ref();
            broadcast.packed[into] =
                sent.map(|packed| packed.to_device(&devices[into], source.traffic));
        }
        broadcast
    }

    /// The values for `replica`, which is on `device`.
    pub(crate) fn values(&mut self, replica: usize, device: &Device) -> Snapshot {
        let &Source {
            module, traffic, ..
        } = self.source;
        let take = Take {
            reading: self.reading,
            device,
            link: Link::Leaf,
            scope: self.scope,
            traffic,
        };
        match self.packed[replica].take() {
            Some(packed) => take.packed(module, (self.layout.clone(), packed)),
            None => self
                .beside
                .get_or_insert_with(|| take.values(module))
                .clone(),
        }
    }
}
