//! The data: where it comes from, and how it becomes batches.

mod digits;
mod format;
mod idx;
mod mnist;

use std::path::Path;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_dp::Scatter;

use crate::problem::Problem;
pub use format::Sample;

/// Training and test samples of one size.
#[derive(Debug)]
pub struct Data {
    pub name: String,
    pub height: usize,
    pub width: usize,
    pub classes: usize,
    pub train: Vec<Sample>,
    pub test: Vec<Sample>,
}

impl Data {
    pub fn describe(&self) -> String {
        format!(
            "{}: {} training and {} test images of {}x{}, {} classes",
            self.name,
            self.train.len(),
            self.test.len(),
            self.height,
            self.width,
            self.classes
        )
    }
}

/// Load what `--data` names.
pub fn load(source: &str) -> Result<Data, Problem> {
    match source {
        "digits" => digits::load("the digits that ship with the example"),
        "auto" => digits::load(
            "the digits that ship with the example (by default; --data mnist or --data DIR for others)",
        ),
        "mnist" => mnist::load(),
        directory => idx::load(Path::new(directory)),
    }
}

/// A batch, which the derive lets burn-dp split over replicas.
#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    /// `[rows, height, width]`
    pub images: Tensor<3>,
    /// `[rows]`
    pub targets: Tensor<1, Int>,
}

#[derive(Clone, Debug)]
pub struct ImageBatcher {
    pub height: usize,
    pub width: usize,
}

impl Batcher<Sample, Batch> for ImageBatcher {
    fn batch(&self, items: Vec<Sample>, device: &Device) -> Batch {
        let rows = items.len();
        let targets: Vec<i32> = items.iter().map(|item| i32::from(item.label)).collect();
        let pixels: Vec<f32> = items.into_iter().flat_map(|item| item.pixels).collect();
        Batch {
            images: Tensor::from_data(
                TensorData::new(pixels, [rows, self.height, self.width]),
                device,
            ),
            targets: Tensor::from_data(TensorData::new(targets, [rows]), device),
        }
    }
}
