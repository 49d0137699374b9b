//! Accumulation: gradients of several micro-batches stay on their replicas' devices and are reduced once.

use std::sync::Arc;

use burn::module::Module;
use burn::optim::GradientsParams;

use crate::bucket::PackedGrads;
use crate::data_parallel::DataParallel;
use crate::error::{DataParallelError, Phase};
use crate::layout::Layout;
use crate::loss::{LossWeight, StepResult};
use crate::reduce::{Grads, sum_plain};
use crate::scatter::Scatter;
use crate::snapshot::Link;
use crate::train_step::{Scaling, train};
use crate::weights::bad_weights;

/// A group of micro-batches that count as one batch: made by [`DataParallel::accumulate`].
///
/// Each [`train_step`](Self::train_step) leaves its gradients on the replicas' devices; [`finish`](Self::finish) reduces them
/// once. They are the gradients of the mean over all rows (or items, see [`Loss`](crate::Loss)) of the group, as if its rows had
/// been one batch: groups of any number, with micro-batches of any sizes, need no factor of their own. The wrapper cannot
/// change in between, since the group borrows it.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::optim::SgdConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_data_parallel::{DataParallel, DeviceIds};
///
/// let device = Device::flex().autodiff();
/// let mut model = DataParallel::new(LinearConfig::new(4, 2).init(&device), DeviceIds::repeat(0, 2))?;
/// let mut optim = SgdConfig::new().init();
/// let batches: Vec<_> = [5, 5, 5, 5, 2]
///     .map(|rows| Tensor::<2>::random([rows, 4], Distribution::Default, &device))
///     .into();
/// for micro_batches in batches.chunks(3) {
///     let mut group = model.accumulate();
///     for batch in micro_batches {
///         let loss = group.train_step(batch.clone(), |replica: &Linear, shard| {
///             replica.forward(shard).powf_scalar(2.0).mean()
///         })?;
///         assert_eq!(loss.dims(), [1]);
///     }
///     let grads = group.finish()?;
///     model = optim.step(0.1, model, grads);
/// }
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
#[must_use = "gradients come by `finish`"]
pub struct Accumulation<'a, M: Module> {
    model: &'a DataParallel<M>,
    /// By replica; both kinds where some micro-batches ran on one device only.
    plain: Vec<Option<GradientsParams>>,
    packed: Vec<Option<PackedGrads>>,
    layout: Option<Arc<Layout>>,
    total: Option<Total>,
    len: usize,
}

/// How the losses count so far.
#[derive(Clone, Copy, Debug)]
struct Total {
    /// Rows of the first micro-batch, to which all gradients are scaled, so that they stay in the range of a single step's.
    reference_rows: f64,
    weight: LossWeight,
    /// Rows or items of all micro-batches.
    count: f64,
}

impl<M: Module + 'static> DataParallel<M> {
    /// Begin a group of micro-batches.
    pub fn accumulate(&self) -> Accumulation<'_, M> {
        Accumulation::new(self)
    }
}

impl<'a, M: Module + 'static> Accumulation<'a, M> {
    fn new(model: &'a DataParallel<M>) -> Self {
        let replicas = model.replica_count();
        Self {
            model,
            plain: (0..replicas).map(|_| None).collect(),
            packed: (0..replicas).map(|_| None).collect(),
            layout: None,
            total: None,
            len: 0,
        }
    }

    /// [`DataParallel::train_step`] on one micro-batch; its gradients are added to the group's.
    ///
    /// The loss and the output are those of this micro-batch alone.
    ///
    /// # Errors
    ///
    /// As [`DataParallel::train_step`], and `LossWeights` where the losses of two micro-batches are of different kinds (sum,
    /// mean over rows, mean over items). The group is as before the call; where adding gradients up on their devices fails
    /// (`Replica`, [`Phase::Reduce`]), it is empty.
    pub fn train_step<B, S, F>(
        &mut self,
        batch: B,
        step: F,
    ) -> Result<S::Gathered, DataParallelError>
    where
        B: Scatter + Send + 'static,
        S: StepResult,
        F: Fn(&M, B) -> S + Send + Sync + 'static,
    {
        let scaling = Scaling::Group(self.total.map(|total| total.reference_rows));
        let earlier = self.total;
        let (combined, total, layout) = self.model.step(
            "Accumulation::train_step",
            batch,
            |_| Link::Leaf,
            move |slot, replica, shard| train(slot, replica, scaling, || step(replica, shard)),
            move |model, applied| {
                let combined = model.combine::<S>(applied)?;
                let total = add(earlier, &combined.weights, applied.total_rows)?;
                Ok((combined, total, applied.layout.take()))
            },
        )?;
        // Taken, so that sums are made in place. Where that fails, the group is left empty.
        let before = std::mem::replace(self, Self::new(self.model));
        let (mut plain, mut packed) = (before.plain, before.packed);
        let progress = self.model.shared.progress(self.model.replica_count());
        self.model.guarded(&progress, Phase::Reduce, || {
            for (replica, grads) in combined.grads.into_iter().enumerate() {
                progress.turn_to(replica);
                match grads {
                    Grads::Plain(grads) => {
                        let sum = plain[replica].take().into_iter().chain([grads]);
                        plain[replica] = Some(sum_plain(self.model.module(), sum.collect(), 1.0));
                    }
                    Grads::Packed(grads) => {
                        packed[replica] = Some(match packed[replica].take() {
                            Some(sum) => sum.add(grads),
                            None => grads,
                        });
                    }
                }
            }
        })?;
        *self = Self {
            model: self.model,
            plain,
            packed,
            layout: layout.or(before.layout),
            total: Some(total),
            len: before.len + 1,
        };
        Ok(combined.gathered)
    }

    /// The number of micro-batches so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there has been no micro-batch yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reduce the gradients of the group onto the primary; without micro-batches there are none.
    ///
    /// # Errors
    ///
    /// `Replica` where a device fails.
    pub fn finish(self) -> Result<GradientsParams, DataParallelError> {
        let Some(total) = self.total else {
            return Ok(GradientsParams::new());
        };
        let factor = match total.weight {
            LossWeight::Sum => 1.0,
            LossWeight::Rows | LossWeight::Items(_) => total.reference_rows / total.count,
        };
        let (plain, packed) = (self.plain.into_iter(), self.packed.into_iter());
        let plain = plain.flatten().map(Grads::Plain);
        let parts = plain.chain(packed.flatten().map(Grads::Packed)).collect();
        let progress = self.model.shared.progress(self.model.replica_count());
        let layout = self.layout.as_deref();
        let (grads, cost) = self.model.reduce_grads(parts, factor, layout, &progress)?;
        self.model.shared.meter.reduce(cost);
        Ok(grads)
    }
}

impl<M: Module> std::fmt::Debug for Accumulation<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulation")
            .field("len", &self.len)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// The totals with one more micro-batch, whose replicas' losses have these weights.
fn add(
    before: Option<Total>,
    weights: &[LossWeight],
    rows: f64,
) -> Result<Total, DataParallelError> {
    let items = |weight: &LossWeight| match weight {
        LossWeight::Items(items) => *items,
        LossWeight::Rows | LossWeight::Sum => 0.0,
    };
    let (weight, count) = match weights.first() {
        Some(LossWeight::Items(_)) => {
            let items = weights.iter().map(items).sum();
            (LossWeight::Items(items), items)
        }
        Some(LossWeight::Sum) => (LossWeight::Sum, rows),
        Some(LossWeight::Rows) | None => (LossWeight::Rows, rows),
    };
    match before {
        None => Ok(Total {
            reference_rows: rows,
            weight,
            count,
        }),
        Some(total) => {
            let kind = std::mem::discriminant;
            if kind(&total.weight) != kind(&weight) {
                return Err(bad_weights(format!(
                    "this micro-batch's loss is weighted by {weight:?}, the earlier ones' by {:?}; return the same kind from all",
                    total.weight
                )));
            }
            Ok(Total {
                count: total.count + count,
                ..total
            })
        }
    }
}
