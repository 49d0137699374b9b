//! Scatter for tensors.

use burn::tensor::{Device, Tensor, kind::Autodiff};

use super::{BatchInspector, Scatter};
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
                    detached(shard)
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

/// `tensor` outside any graph, with its autodiff setting.
fn detached<const D: usize, K: Autodiff>(tensor: Tensor<D, K>) -> Tensor<D, K> {
    match tensor.gradient_checkpointing_strategy() {
        Some(strategy) => tensor
            .inner()
            .autodiff()
            .with_gradient_checkpointing_strategy(strategy),
        None => tensor,
    }
}
