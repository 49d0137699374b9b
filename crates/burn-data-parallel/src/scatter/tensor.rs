//! Scatter for tensors.

use burn::tensor::{Device, Tensor, kind::Basic};

use super::{BatchInspector, Scatter};
use crate::shards::Shards;

impl<const D: usize, K: Basic> Scatter for Tensor<D, K> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        inspector.tensor(&self.dims());
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        if shards.len() == 1 {
            return shards
                .devices()
                .map(|device| self.clone().to_device(device))
                .collect();
        }
        shards
            .ranges()
            .map(|(start, rows, device)| {
                self.clone()
                    .narrow(shards.dim(), start, rows)
                    .to_device(device)
            })
            .collect()
    }

    fn to_replica(self, device: &Device) -> Self {
        self.to_device(device)
    }
}
