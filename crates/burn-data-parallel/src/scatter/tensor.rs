//! Scatter for tensors.

use burn::tensor::{Device, Tensor, kind::Autodiff};

use super::{BatchInspector, Scatter};
use crate::reading::in_context;
use crate::shards::Shards;

impl<const D: usize, K: Autodiff> Scatter for Tensor<D, K> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        inspector.tensor(&self.dims());
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        shards
            .ranges()
            .map(|(start, rows, device)| {
                let whole = self.clone();
                let shard = if shards.len() == 1 {
                    whole
                } else {
                    whole.narrow(shards.dim(), start, rows)
                };
                let shard = shards.traffic.to_device(shard, device);
                if shards.detached {
                    let context = shard.gradient_checkpointing_strategy();
                    in_context(shard.inner(), context)
                } else {
                    shard
                }
            })
            .collect()
    }

    fn to_replica(self, device: &Device) -> Self {
        self.to_device(device)
    }
}
