//! Values that are combined rather than concatenated.

use burn::tensor::{Tensor, kind::Numeric};

use super::{Gather, GatherPlan};
use crate::error::DataParallelError;

/// A value that is a mean over the rows of a shard; gathered, it is the mean over the whole batch.
///
/// The mean is weighted by rows, so it equals the one-device value for uneven shards too (a mean of means would not).
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_data_parallel::{Gather, GatherPlan, Mean};
///
/// let device = Device::flex();
/// let plan = GatherPlan::new(0, device.clone(), &[3, 1]); // shards of 3 and 1 rows
/// let part = |x: f32| Mean(Tensor::<1>::from_floats([x], &device));
/// let Mean(loss) = Mean::gather_shards(vec![part(1.0), part(5.0)], &plan)?;
/// assert_eq!(loss.into_scalar::<f32>(), 2.0);
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mean<T>(pub T);

/// A value that is a sum over the rows of a shard; gathered, it is the sum over the whole batch.
#[derive(Clone, Debug)]
pub struct Sum<T>(pub T);

/// Values kept apart: gathered, there is one element per replica, in order, on the devices where they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerReplica<T>(pub Vec<T>);

impl<T> Gather for PerReplica<T> {
    fn gather_shards(shards: Vec<Self>, _plan: &GatherPlan) -> Result<Self, DataParallelError> {
        Ok(PerReplica(
            shards.into_iter().flat_map(|shard| shard.0).collect(),
        ))
    }
}

impl<const D: usize> Gather for Mean<Tensor<D>> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        let weighted = shards
            .into_iter()
            .enumerate()
            .filter_map(|(replica, Mean(shard))| {
                let weight = plan.counted(replica)?;
                let weighted = match weight {
                    1.0 => shard,
                    _ => shard.mul_scalar(weight),
                };
                Some((replica, weighted))
            });
        add_up(weighted.collect(), plan).map(Mean)
    }
}

impl<const D: usize, K: Numeric> Gather for Sum<Tensor<D, K>> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        let shards = shards.into_iter().map(|Sum(shard)| shard).enumerate();
        add_up(shards.collect(), plan).map(Sum)
    }
}

/// Sum of tensors of one shape on the output device, in order of the replicas.
fn add_up<const D: usize, K: Numeric>(
    shards: Vec<(usize, Tensor<D, K>)>,
    plan: &GatherPlan,
) -> Result<Tensor<D, K>, DataParallelError> {
    let dims = |(replica, shard): &(usize, Tensor<D, K>)| (*replica, shard.dims());
    let (first, first_dims) = dims(&shards[0]);
    if let Some((replica, other)) = shards
        .iter()
        .map(dims)
        .find(|(_, dims)| *dims != first_dims)
    {
        return Err(plan.mismatch(format!(
            "replica {first} gave shape {first_dims:?}, replica {replica} gave {other:?}, and a mean or sum needs one shape"
        )));
    }
    let mut parts = shards
        .into_iter()
        .map(|(_, shard)| plan.traffic.to_device(shard, &plan.device));
    let first = parts.next().expect("gather is given at least one shard");
    Ok(parts.fold(first, |sum, part| sum + part))
}

macro_rules! reduced_number {
    ($($name:ty),+) => {$(
        impl Gather for Mean<$name> {
            fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                let shards = shards.into_iter().enumerate();
                let counted = shards.filter_map(|(replica, shard)| Some(f64::from(shard.0) * plan.counted(replica)?));
                Ok(Mean(counted.sum::<f64>() as $name))
            }
        }
    )+};
}

reduced_number!(f32, f64);

macro_rules! summed_number {
    ($($name:ty),+) => {$(
        impl Gather for Sum<$name> {
            fn gather_shards(shards: Vec<Self>, _plan: &GatherPlan) -> Result<Self, DataParallelError> {
                Ok(Sum(shards.iter().map(|shard| shard.0).sum()))
            }
        }
    )+};
}

summed_number!(f32, f64, u32, u64, usize, i32, i64, isize);
