//! How a batch is cut: sizes, offsets and devices of the shards.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, kind::Autodiff};

use crate::progress::Progress;
use crate::reading::in_context;
use crate::stats::Traffic;

/// Rows of each shard when `rows` rows are spread over `replicas`: balanced, the larger ones first, never empty.
///
/// Nine rows on eight replicas are `2,1,1,1,1,1,1,1`; two rows on three replicas are `1,1`, so fewer replicas run. (PyTorch
/// cuts as [`torch.chunk`](https://docs.pytorch.org/docs/stable/generated/torch.chunk.html), which gives `2,2,2,2,1`.)
pub fn balanced_sizes(rows: usize, replicas: usize) -> Vec<usize> {
    let parts = replicas.min(rows);
    (0..parts)
        .map(|part| rows / parts + usize::from(part < rows % parts))
        .collect()
}

/// The plan by which [`Scatter`](crate::Scatter) cuts a batch: one shard per used replica.
#[derive(Clone, Debug)]
pub struct Shards {
    pub(crate) dim: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) devices: Vec<Device>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) detached: bool,
    /// The board of the step, so that an error names the replica whose shard was on its way.
    pub(crate) progress: Option<Arc<Progress>>,
}

impl Shards {
    /// A plan for `sizes.len()` shards along `dim`, shard `i` going to `devices[i]`.
    ///
    /// # Panics
    ///
    /// If there are fewer devices than sizes.
    pub fn new(dim: usize, sizes: Vec<usize>, devices: Vec<Device>) -> Self {
        assert!(
            sizes.len() <= devices.len(),
            "a device for each shard is needed"
        );
        Self {
            dim,
            sizes,
            devices,
            traffic: Arc::default(),
            detached: false,
            progress: None,
        }
    }

    /// The dim along which tensors are cut.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of shards.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there is no shard.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The same plan along another dim.
    pub fn along(&self, dim: usize) -> Self {
        Self {
            dim,
            ..self.clone()
        }
    }

    /// `(start, rows, device)` of each shard, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, usize, &Device)> {
        let mut start = 0;
        self.sizes
            .iter()
            .zip(&self.devices)
            .map(move |(&rows, device)| {
                start += rows;
                (start - rows, rows, device)
            })
    }

    /// `tensor` on the device of `replica`. In a `train_step` it is then no part of the graph that it came from, which replicas
    /// would otherwise run through at the same time.
    ///
    /// # Panics
    ///
    /// If there is no such replica, or its device fails.
    pub fn place<const D: usize, K: Autodiff>(
        &self,
        replica: usize,
        tensor: Tensor<D, K>,
    ) -> Tensor<D, K> {
        if let Some(progress) = &self.progress {
            progress.turn_to(replica);
        }
        let tensor = self.traffic.to_device(tensor, &self.devices[replica]);
        if self.detached {
            let context = tensor.gradient_checkpointing_strategy();
            in_context(tensor.inner(), context)
        } else {
            tensor
        }
    }

    /// The device of each shard, in order.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.ranges().map(|(_, _, device)| device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_balanced_and_never_empty() {
        assert_eq!(balanced_sizes(9, 8), [2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(balanced_sizes(2, 3), [1, 1]);
        assert!(balanced_sizes(0, 3).is_empty());
        for rows in 1..200 {
            for replicas in 1..17 {
                let sizes = balanced_sizes(rows, replicas);
                assert_eq!(sizes.iter().sum::<usize>(), rows);
                assert_eq!(sizes.len(), replicas.min(rows));
                let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
                assert!(*min >= 1 && max - min <= 1, "{rows} {replicas} {sizes:?}");
            }
        }
    }
}
