//! How the replicas' losses count in the loss of the whole batch.

use burn::tensor::Tensor;

use crate::error::DataParallelError;
use crate::gather::{Gather, GatherPlan, Mean};
use crate::loss::LossWeight;

/// The share of each replica's loss in the whole loss, and what is left to multiply the sum of scaled gradients by.
pub(crate) fn shares(
    weights: &[LossWeight],
    by_rows: &[f64],
    total_rows: f64,
) -> Result<(Vec<f64>, f64), DataParallelError> {
    let items: Vec<f64> = weights
        .iter()
        .filter_map(|weight| match weight {
            LossWeight::Items(items) => Some(*items),
            _ => None,
        })
        .collect();
    if weights.iter().all(|weight| *weight == LossWeight::Rows) {
        return Ok((by_rows.to_vec(), 1.0));
    }
    if weights.iter().all(|weight| *weight == LossWeight::Sum) {
        return Ok((vec![1.0; weights.len()], 1.0));
    }
    if items.len() != weights.len() {
        return Err(bad_weights(format!(
            "some are sums and others means: {weights:?}; return the same kind from every replica"
        )));
    }
    let total: f64 = items.iter().sum();
    if items.iter().any(|&items| !items.is_finite() || items < 0.0) {
        return Err(bad_weights(format!(
            "the weights {items:?} are not all finite and at least 0"
        )));
    }
    if total == 0.0 {
        return Err(bad_weights(
            "every replica's weight is 0, so the batch has no items to take a mean of; skip such a batch".into(),
        ));
    }
    let factor = if items.len() == 1 {
        1.0
    } else {
        total_rows / total
    };
    Ok((items.iter().map(|items| items / total).collect(), factor))
}

pub(crate) fn bad_weights(detail: String) -> DataParallelError {
    DataParallelError::LossWeights { detail }
}

/// The loss of the whole batch, from the replicas' losses and their shares.
pub(crate) fn gather_loss(
    losses: Vec<(Tensor<1>, f64)>,
    plan: &GatherPlan,
) -> Result<Tensor<1>, DataParallelError> {
    let (losses, weights) = losses
        .into_iter()
        .map(|(loss, share)| (Mean(loss), share))
        .unzip();
    let plan = GatherPlan {
        weights,
        ..plan.clone()
    };
    Mean::gather_shards(losses, &plan).map(|Mean(loss)| loss)
}

/// Means in the output are weighted as the loss is, where the loss has weights of its own.
pub(crate) fn with_shares(
    plan: &GatherPlan,
    weights: &[LossWeight],
    shares: Vec<f64>,
) -> GatherPlan {
    let mut plan = plan.clone();
    if weights
        .iter()
        .any(|weight| matches!(weight, LossWeight::Items(_)))
    {
        plan.weights = shares;
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_items_sum_to_one_and_factor_undoes_the_scaling() {
        let weights = [LossWeight::Items(6.0), LossWeight::Items(2.0)];
        let (shares, factor) = shares(&weights, &[0.5, 0.5], 4.0).unwrap();
        assert_eq!(shares, [0.75, 0.25]);
        // A gradient g of replica 0 was scaled by items / rows = 6 / 4; the factor makes that its share.
        assert_eq!(6.0 / 4.0 * factor, 0.75);
    }

    #[test]
    fn mixed_negative_and_zero_weights_are_errors() {
        for weights in [
            [LossWeight::Sum, LossWeight::Rows],
            [LossWeight::Items(1.0), LossWeight::Rows],
            [LossWeight::Items(-1.0), LossWeight::Items(2.0)],
            [LossWeight::Items(f64::NAN), LossWeight::Items(2.0)],
            [LossWeight::Items(0.0), LossWeight::Items(0.0)],
        ] {
            let error = shares(&weights, &[0.5, 0.5], 2.0).unwrap_err();
            assert!(matches!(error, DataParallelError::LossWeights { .. }));
        }
    }
}
