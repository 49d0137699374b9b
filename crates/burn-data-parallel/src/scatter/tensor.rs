//! Scatter for tensors.

use burn::tensor::{Tensor, kind::Autodiff};

use super::{BatchInspector, Scatter};
use crate::shards::Shards;

impl<const D: usize, K: Autodiff> Scatter for Tensor<D, K> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        inspector.tensor(&self.dims());
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        shards
            .ranges()
            .enumerate()
            .map(|(replica, (start, rows, _))| {
                let whole = self.clone();
                let shard = if shards.len() == 1 {
                    whole
                } else {
                    whole.narrow(shards.dim(), start, rows)
                };
                shards.place(replica, shard)
            })
            .collect()
    }

    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        shards.place(replica, self)
    }
}
