//! Gather for tensors: concatenation on the output device.

use burn::tensor::{Tensor, kind::Basic};

use super::{Gather, GatherPlan};
use crate::error::DataParallelError;

impl<const D: usize, K: Basic> Gather for Tensor<D, K> {
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
        check_shapes(&shards, plan)?;
        let mut moved: Vec<Self> = shards
            .into_iter()
            .map(|shard| plan.traffic.to_device(shard, &plan.device))
            .collect();
        if moved.len() == 1 {
            return Ok(moved.remove(0));
        }
        Ok(Tensor::cat(moved, plan.dim))
    }
}

fn check_shapes<const D: usize, K: Basic>(
    shards: &[Tensor<D, K>],
    plan: &GatherPlan,
) -> Result<(), DataParallelError> {
    let first = shards[0].dims();
    if plan.dim >= D {
        return Err(DataParallelError::NoGatherDim {
            path: plan.place(),
            shape: first.to_vec(),
            dim: plan.dim,
        });
    }
    for (replica, shard) in shards.iter().enumerate() {
        let dims = shard.dims();
        if (0..D).any(|dim| dim != plan.dim && dims[dim] != first[dim]) {
            return Err(DataParallelError::GatherShapes {
                path: plan.place(),
                dim: plan.dim,
                replica,
                first: first.to_vec(),
                other: dims.to_vec(),
            });
        }
    }
    let one_value_each = D == 1 && shards.iter().all(|shard| shard.dims()[0] == 1);
    let most_rows = plan.rows.iter().flatten().max().copied().unwrap_or(1);
    if one_value_each && most_rows > 1 {
        return Err(DataParallelError::ScalarOutput {
            path: plan.place(),
            rows: most_rows,
        });
    }
    Ok(())
}
