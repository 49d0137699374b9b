//! Batches that come already cut, each shard on its replica's device.

use super::{BatchInspector, Scatter};
use crate::shards::Shards;

/// A batch that was cut before: one shard per replica, each made on its replica's device.
///
/// Loaded so, a batch goes from the host straight to the devices, not through the primary. The closure of a step gets a
/// `Sharded` of its one shard. With the feature `dataset`, `ShardedBatcher` makes such batches in Burn's data loaders.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds, Sharded};
///
/// let device = Device::flex().autodiff();
/// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let shard = |rows| (Tensor::<2>::random([rows, 4], Distribution::Default, &device), rows);
/// let batch = Sharded::new([shard(3), shard(2)]);
/// let (loss, _grads) = model.train_step(batch, |replica: &Linear, shard: Sharded<Tensor<2>>| {
///     replica.forward(shard.into_shard()).mean()
/// })?;
/// # let _ = loss;
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sharded<B> {
    shards: Vec<B>,
    rows: Vec<usize>,
}

impl<B> Sharded<B> {
    /// Shards in order of the replicas, with the rows of each.
    ///
    /// Fewer shards than replicas use fewer replicas.
    pub fn new(shards: impl IntoIterator<Item = (B, usize)>) -> Self {
        let (shards, rows) = shards.into_iter().unzip();
        Self { shards, rows }
    }

    /// Rows of all shards together.
    pub fn rows(&self) -> usize {
        self.rows.iter().sum()
    }

    /// The shards, in order of the replicas.
    pub fn shards(&self) -> &[B] {
        &self.shards
    }

    /// The one shard that a replica's closure is given.
    ///
    /// # Panics
    ///
    /// If there is not exactly one, as in a batch that has not been through a step.
    pub fn into_shard(self) -> B {
        let count = self.shards.len();
        match self.shards.into_iter().next() {
            Some(shard) if count == 1 => shard,
            _ => panic!("into_shard is for the closure of a step; this batch holds {count} shards"),
        }
    }
}

impl<B: Scatter> Scatter for Sharded<B> {
    fn inspect(&self, inspector: &mut BatchInspector) {
        inspector.sizes(&self.rows);
    }

    fn into_shards(self, shards: &Shards) -> Vec<Self> {
        self.shards
            .into_iter()
            .zip(self.rows)
            .enumerate()
            .map(|(replica, (shard, rows))| Self::new([(shard.to_replica(replica, shards), rows)]))
            .collect()
    }

    fn to_replica(self, replica: usize, shards: &Shards) -> Self {
        let own = self.shards.into_iter();
        Self {
            shards: own.map(|shard| shard.to_replica(replica, shards)).collect(),
            rows: self.rows,
        }
    }
}
