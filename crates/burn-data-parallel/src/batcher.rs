//! A batcher that makes each replica's shard on the replica's device.

use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::tensor::Device;

use crate::data_parallel::DataParallel;
use crate::scatter::Sharded;
use crate::shards::balanced_sizes;

/// Wraps a batcher, unchanged, so that Burn's data loaders give [`Sharded`] batches: the items of a batch are spread over the
/// replicas, and each part is batched straight on its replica's device (host to device, not through the primary).
///
/// The loader's own device is not used. With `num_workers`, the next batches are made while this one is trained on.
///
/// ```
/// use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
/// use burn::data::dataset::InMemDataset;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds, Sharded};
///
/// struct Rows;
///
/// impl Batcher<[f32; 4], Tensor<2>> for Rows {
///     fn batch(&self, items: Vec<[f32; 4]>, device: &Device) -> Tensor<2> {
///         let rows = items.len();
///         Tensor::<1>::from_floats(items.concat().as_slice(), device).reshape([rows, 4])
///     }
/// }
///
/// let device = Device::flex().autodiff();
/// let model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let loader = DataLoaderBuilder::new(model.sharded_batcher(Rows))
///     .batch_size(3)
///     .num_workers(1)
///     .build(InMemDataset::new(vec![[1.0; 4]; 7]));
/// let mut rows = 0;
/// for batch in loader.iter() {
///     let batch = batch.expect("items in memory can be read");
///     rows += batch.rows();
///     model.train_step(batch, |replica: &Linear, shard: Sharded<Tensor<2>>| {
///         replica.forward(shard.into_shard()).mean()
///     })?;
/// }
/// assert_eq!(rows, 7);
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShardedBatcher<B> {
    batcher: B,
    devices: Vec<Device>,
}

impl<M: Module> DataParallel<M> {
    /// `batcher`, making batches for the replicas of this wrapper.
    pub fn sharded_batcher<B>(&self, batcher: B) -> ShardedBatcher<B> {
        ShardedBatcher {
            batcher,
            devices: self.replica_devices().to_vec(),
        }
    }
}

impl<I, O, B: Batcher<I, O>> Batcher<I, Sharded<O>> for ShardedBatcher<B> {
    fn batch(&self, items: Vec<I>, _device: &Device) -> Sharded<O> {
        let sizes = balanced_sizes(items.len(), self.devices.len());
        let mut items = items.into_iter();
        let shards = sizes.into_iter().zip(&self.devices).map(|(rows, device)| {
            let part = items.by_ref().take(rows).collect();
            (self.batcher.batch(part, device), rows)
        });
        Sharded::new(shards.collect::<Vec<_>>())
    }
}
