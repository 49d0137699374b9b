//! Gather: put the outputs of the replicas together.

mod containers;
mod reduced;
mod tensor;

use std::sync::Arc;

use burn::tensor::Device;

use crate::{error::DataParallelError, scatter::place, stats::Traffic};

pub use reduced::{Mean, PerReplica, Sum};

/// An output, or a part of one, that can be put together from the replicas' parts.
///
/// Tensors are concatenated in order of the replicas on the output device. A value that is not one per row says how it is
/// combined: [`Mean`] (weighted by rows), [`Sum`], or [`PerReplica`]. Plain values (numbers, `bool`, `String`, `()`) must be
/// equal on every replica. Structs derive it:
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_data_parallel::Gather;
///
/// #[derive(Gather)]
/// struct Output {
///     logits: Tensor<2>,
///     #[gather(dim = 1)]
///     hidden: Tensor<3>, // [layers, batch, features]
///     #[gather(mean)]
///     loss: Tensor<1>, // weighted by rows
///     #[gather(sum)]
///     correct: Tensor<1>,
///     #[gather(first)]
///     note: &'static str, // the primary's
/// }
/// ```
pub trait Gather: Sized {
    /// Put the parts together; there is at least one, in order of the replicas.
    ///
    /// # Errors
    ///
    /// `GatherShapes`, `NoGatherDim`, `ScalarOutput` or `GatherMismatch` where parts do not fit together.
    fn gather_shards(shards: Vec<Self>, plan: &GatherPlan) -> Result<Self, DataParallelError>;
}

/// Where and how outputs are put together.
#[derive(Clone, Debug)]
pub struct GatherPlan {
    pub(crate) dim: usize,
    pub(crate) device: Device,
    pub(crate) rows: Vec<Option<usize>>,
    pub(crate) weights: Vec<f64>,
    pub(crate) path: Vec<String>,
    pub(crate) traffic: Arc<Traffic>,
}

impl GatherPlan {
    /// A plan to gather along `dim` on `device` what replicas of `rows` rows each gave.
    pub fn new(dim: usize, device: Device, rows: &[usize]) -> Self {
        let total = rows.iter().sum::<usize>().max(1) as f64;
        Self {
            dim,
            device,
            rows: rows.iter().copied().map(Some).collect(),
            weights: rows.iter().map(|&rows| rows as f64 / total).collect(),
            path: Vec::new(),
            traffic: Arc::default(),
        }
    }

    /// The plan for a replica that got the whole batch: a batch that has no rows to split.
    pub(crate) fn whole(dim: usize, device: Device) -> Self {
        Self {
            dim,
            device,
            rows: vec![None],
            weights: vec![1.0],
            path: Vec::new(),
            traffic: Arc::default(),
        }
    }

    /// The dim along which tensors are concatenated.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The device on which outputs are gathered.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The share of each replica in a weighted mean; they sum to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The plan for a part of the output under `name`.
    pub fn field(&self, name: impl Into<String>) -> Self {
        let mut plan = self.clone();
        plan.path.push(name.into());
        plan
    }

    /// The same plan along another dim.
    pub fn along(&self, dim: usize) -> Self {
        Self {
            dim,
            ..self.clone()
        }
    }

    /// The share of `replica` in a weighted mean; none if that is 0. The mean of no items is NaN, and so is 0 times NaN, so such
    /// a part must be left out rather than multiplied.
    pub(crate) fn counted(&self, replica: usize) -> Option<f64> {
        let weight = *self.weights.get(replica)?;
        let all_are_zero = || self.weights.iter().all(|&weight| weight == 0.0);
        (weight != 0.0 || all_are_zero()).then_some(weight)
    }

    pub(crate) fn place(&self) -> String {
        place(&self.path)
    }

    /// The error for parts that differ in structure.
    pub fn mismatch(&self, detail: impl Into<String>) -> DataParallelError {
        DataParallelError::GatherMismatch {
            path: self.place(),
            detail: detail.into(),
        }
    }
}
