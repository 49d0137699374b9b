//! Gather for burn-train's outputs, so that metrics see the whole batch.

use burn::tensor::Tensor;
use burn::train::{
    ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput,
};

use crate::error::DataParallelError;
use crate::gather::{Gather, GatherPlan, Mean};

/// Gather a struct of a loss and of tensors whose first dim is the batch.
macro_rules! gather_output {
    ($output:ident: $($field:ident),+) => {
        /// The loss is the mean weighted by rows (a loss of one value per item is concatenated); all tensors are concatenated
        /// along their first dim, which burn-train has as the batch, whatever the dim that inputs are split along.
        impl Gather for $output {
            fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError> {
                let plan = plan.along(0);
                let mut losses = Vec::with_capacity(shards.len());
                $(let mut $field = Vec::with_capacity(shards.len());)+
                for shard in shards {
                    losses.push(shard.loss);
                    $($field.push(shard.$field);)+
                }
                Ok($output {
                    loss: gather_loss(losses, &plan.field("loss"))?,
                    $($field: Gather::gather_shards($field, &plan.field(stringify!($field)))?,)+
                })
            }
        }
    };
}

gather_output!(ClassificationOutput: output, targets);
gather_output!(RegressionOutput: output, targets);
gather_output!(MultiLabelClassificationOutput: output, targets);
// It has no field for a padding token, so sequences of unequal length are a `GatherShapes` error, not a guess.
gather_output!(SequenceOutput: logits, predictions, targets);

fn gather_loss(losses: Vec<Tensor<1>>, plan: &GatherPlan) -> Result<Tensor<1>, DataParallelError> {
    // `LossMetric` counts the values of a loss as items, so that a longer one is one value per item.
    if losses.iter().any(|loss| loss.dims()[0] != 1) {
        return Tensor::gather_shards(losses, plan);
    }
    Mean::gather_shards(losses.into_iter().map(Mean).collect(), plan).map(|Mean(loss)| loss)
}
