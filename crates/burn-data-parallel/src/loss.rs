//! What a training closure returns: a loss, its weight, and perhaps an output.

use burn::tensor::Tensor;

use crate::gather::Gather;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a replica's loss counts in the loss of the whole batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossWeight {
    /// The loss is a mean over the shard's rows; its weight is their number. The default.
    Rows,
    /// The loss is a mean over so many items, for example tokens that are not padding.
    Items(f64),
    /// The loss is a sum; the replicas' losses are added.
    Sum,
}

/// A loss of one value, and how it counts.
///
/// The loss of the whole batch is `sum(weight_i * loss_i) / sum(weight_i)` for means, and `sum(loss_i)` for sums; gradients
/// likewise. That equals the loss of one device on the whole batch, for any split (a mean of means would not, cf. the
/// caveat on uneven inputs of PyTorch's
/// [`DistributedDataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)).
#[derive(Clone, Debug)]
pub struct Loss {
    pub(crate) value: Tensor<1>,
    pub(crate) weight: LossWeight,
}

impl Loss {
    /// A mean over the rows of the shard: what a `Tensor<1>` alone means too.
    ///
    /// # Shapes
    ///
    /// `[1]`
    pub fn mean(value: Tensor<1>) -> Self {
        Self {
            value,
            weight: LossWeight::Rows,
        }
    }

    /// A mean over `items` items of the shard (tokens that are not padding, positive pairs, class weights summed).
    ///
    /// A shard of weight 0 adds nothing, whatever its loss is (the mean of no items is NaN).
    ///
    /// # Shapes
    ///
    /// `[1]`
    pub fn mean_over(value: Tensor<1>, items: f64) -> Self {
        Self {
            value,
            weight: LossWeight::Items(items),
        }
    }

    /// The loss itself, `[1]`: for validation, where nothing is weighted.
    pub fn value(&self) -> &Tensor<1> {
        &self.value
    }

    /// How it counts.
    pub fn weight(&self) -> LossWeight {
        self.weight
    }

    /// A sum over the rows of the shard.
    ///
    /// # Shapes
    ///
    /// `[1]`
    pub fn sum(value: Tensor<1>) -> Self {
        Self {
            value,
            weight: LossWeight::Sum,
        }
    }
}

impl From<Tensor<1>> for Loss {
    fn from(value: Tensor<1>) -> Self {
        Self::mean(value)
    }
}

/// What the closure of [`train_step`](crate::DataParallel::train_step) may return.
///
/// | returned | `train_step` gives |
/// |---|---|
/// | `Tensor<1>` or [`Loss`] | the loss of the whole batch, `Tensor<1>` |
/// | `(Tensor<1> or Loss, O)` where `O: Gather` | `(Tensor<1>, O)`, the output gathered |
/// | `Result<one of these, E>` | the same, or an error that names the replica and holds `E` as its source |
pub trait StepResult: Send + 'static {
    /// The output beside the loss, as one replica gives it.
    type Output: Gather + Send + 'static;
    /// What `train_step` returns for the whole batch.
    type Gathered: Send + 'static;

    /// The loss and the output of one replica.
    ///
    /// # Errors
    ///
    /// Where the closure returned an error.
    fn into_parts(self) -> Result<(Loss, Self::Output), BoxError>;

    /// The result for the whole batch.
    fn from_gathered(loss: Tensor<1>, output: Self::Output) -> Self::Gathered;
}

impl StepResult for Loss {
    type Output = ();
    type Gathered = Tensor<1>;

    fn into_parts(self) -> Result<(Loss, ()), BoxError> {
        Ok((self, ()))
    }

    fn from_gathered(loss: Tensor<1>, _output: ()) -> Tensor<1> {
        loss
    }
}

impl StepResult for Tensor<1> {
    type Output = ();
    type Gathered = Tensor<1>;

    fn into_parts(self) -> Result<(Loss, ()), BoxError> {
        Ok((self.into(), ()))
    }

    fn from_gathered(loss: Tensor<1>, _output: ()) -> Tensor<1> {
        loss
    }
}

impl<L: Into<Loss> + Send + 'static, O: Gather + Send + 'static> StepResult for (L, O) {
    type Output = O;
    type Gathered = (Tensor<1>, O);

    fn into_parts(self) -> Result<(Loss, O), BoxError> {
        Ok((self.0.into(), self.1))
    }

    fn from_gathered(loss: Tensor<1>, output: O) -> (Tensor<1>, O) {
        (loss, output)
    }
}

impl<S: StepResult, E: Into<BoxError> + Send + 'static> StepResult for Result<S, E> {
    type Output = S::Output;
    type Gathered = S::Gathered;

    fn into_parts(self) -> Result<(Loss, S::Output), BoxError> {
        self.map_err(Into::into)?.into_parts()
    }

    fn from_gathered(loss: Tensor<1>, output: S::Output) -> S::Gathered {
        S::from_gathered(loss, output)
    }
}
