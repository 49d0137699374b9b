//! Scatter: split a batch over replicas.

mod containers;
mod sharded;
mod tensor;

use crate::error::DataParallelError;
use crate::shards::{Shards, balanced_sizes};

pub use containers::Rows;
pub use sharded::Sharded;

/// A batch, or a part of one, that can be split over replicas.
///
/// Implemented for tensors of any rank and kind, tuples to 6, `Vec`, `Option`, `BTreeMap` and `HashMap` of such values, and
/// for plain values (numbers, `bool`, `char`, `String`, `()`), which every replica gets whole. Structs derive it:
///
/// ```
/// use burn::tensor::{Int, Tensor};
/// use burn_data_parallel::Scatter;
///
/// #[derive(Scatter, Clone)]
/// struct Batch {
///     images: Tensor<3>,
///     targets: Tensor<1, Int>,
///     #[scatter(dim = 1)]
///     hidden: Tensor<3>, // [layers, batch, features]
///     #[scatter(shared)]
///     class_weights: Tensor<1>, // whole, on every replica's device
///     #[scatter(clone)]
///     epoch: usize, // cloned as it is; needs no `Scatter`
/// }
/// ```
///
/// As in PyTorch's [`DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), a `Vec` is a
/// structure whose elements are each split, not a list of rows; a list of rows is [`Rows`].
pub trait Scatter: Sized {
    /// Tell `inspector` the rows of every tensor inside, so that the number of rows is known before anything is cut.
    fn inspect(&self, inspector: &mut BatchInspector);

    /// Cut along `shards.dim()`, and move each piece to its replica's device, by [`Shards::place`].
    ///
    /// Called only after [`inspect`](Self::inspect) has found the rows to be the sum of the shards.
    fn into_shards(self, shards: &Shards) -> Vec<Self>;

    /// Move the whole value to the device of `replica`: tensors by [`Shards::place`].
    fn to_replica(self, replica: usize, shards: &Shards) -> Self;
}

/// One copy of `value` per shard, each whole and on its replica's device: what `#[scatter(shared)]` does.
pub fn share<T: Scatter + Clone>(value: T, shards: &Shards) -> Vec<T> {
    (0..shards.len())
        .map(|replica| value.clone().to_replica(replica, shards))
        .collect()
}

/// Collects the number of rows of a batch, with the path of each tensor for error messages.
#[derive(Debug)]
pub struct BatchInspector {
    dim: usize,
    path: Vec<String>,
    rows: Option<(String, usize, usize)>,
    sizes: Option<(String, Vec<usize>)>,
    error: Option<DataParallelError>,
}

impl BatchInspector {
    /// An inspector for splitting along `dim`.
    pub fn new(dim: usize) -> Self {
        Self {
            dim,
            path: Vec::new(),
            rows: None,
            sizes: None,
            error: None,
        }
    }

    /// Inspect a part of the batch under `name`.
    pub fn field<T: Scatter>(&mut self, name: impl Into<String>, value: &T) {
        self.path.push(name.into());
        value.inspect(self);
        self.path.pop();
    }

    /// Inspect a part of the batch that is split along a dim of its own.
    pub fn field_along<T: Scatter>(&mut self, name: impl Into<String>, dim: usize, value: &T) {
        let outer = std::mem::replace(&mut self.dim, dim);
        self.field(name, value);
        self.dim = outer;
    }

    /// A tensor of this shape is here.
    pub fn tensor(&mut self, shape: &[usize]) {
        match shape.get(self.dim) {
            Some(&rows) => self.rows(rows),
            None => {
                let error = DataParallelError::NoScatterDim {
                    path: self.place(),
                    shape: shape.to_vec(),
                    dim: self.dim,
                };
                self.error.get_or_insert(error);
            }
        }
    }

    /// Something of so many rows is here.
    pub fn rows(&mut self, rows: usize) {
        let place = self.place();
        match &self.rows {
            None => self.rows = Some((place, rows, self.dim)),
            Some((first, first_rows, first_dim)) if *first_rows != rows => {
                let error = DataParallelError::UnequalRows {
                    first: first.clone(),
                    first_rows: *first_rows,
                    first_dim: *first_dim,
                    second: place,
                    second_rows: rows,
                    second_dim: self.dim,
                };
                self.error.get_or_insert(error);
            }
            Some(_) => {}
        }
    }

    /// Something is here that was cut before, into shards of so many rows; the rest of the batch is cut the same way.
    pub fn sizes(&mut self, sizes: &[usize]) {
        let place = self.place();
        let error = match &self.sizes {
            _ if sizes.is_empty() || sizes.contains(&0) => DataParallelError::EmptyShard {
                path: place,
                sizes: sizes.to_vec(),
            },
            Some((first, first_sizes)) if first_sizes != sizes => {
                DataParallelError::UnequalShards {
                    first: first.clone(),
                    first_sizes: first_sizes.clone(),
                    second: place,
                    second_sizes: sizes.to_vec(),
                }
            }
            _ => {
                self.rows(sizes.iter().sum());
                self.sizes.get_or_insert_with(|| (place, sizes.to_vec()));
                return;
            }
        };
        self.error.get_or_insert(error);
    }

    fn place(&self) -> String {
        place(&self.path)
    }

    /// The number of rows, or `None` for a batch without a tensor to split.
    ///
    /// # Errors
    ///
    /// `NoScatterDim`, `UnequalRows`, `UnequalShards` or `EmptyShard`, whichever came first.
    pub fn finish(self) -> Result<Option<usize>, DataParallelError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.rows.map(|(_, rows, _)| rows)),
        }
    }

    /// The rows of each shard for `replicas` replicas: balanced, unless the batch was cut before.
    pub(crate) fn shard_sizes(
        mut self,
        replicas: usize,
    ) -> Result<Option<Vec<usize>>, DataParallelError> {
        let cut = self.sizes.take().map(|(_, sizes)| sizes);
        let rows = self.finish()?;
        match cut {
            Some(sizes) if sizes.len() > replicas => Err(DataParallelError::ShardCount {
                given: sizes.len(),
                expected: replicas,
            }),
            Some(sizes) => Ok(Some(sizes)),
            None => Ok(rows.map(|rows| balanced_sizes(rows, replicas))),
        }
    }
}

/// How a path is written in messages; the whole value is `batch` or `output` by its context, so just "(root)".
pub(crate) fn place(path: &[String]) -> String {
    if path.is_empty() {
        "(root)".into()
    } else {
        path.join(".")
    }
}
