//! A tiny regression.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor, TensorData};

#[derive(Module, Debug)]
pub struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    pub fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(2, 8).init(device),
            last: LinearConfig::new(8, 1).init(device),
        }
    }

    /// The mean squared error over the rows.
    ///
    /// # Shapes
    ///
    /// `[rows, 2]`, `[rows, 1]`
    pub fn loss(&self, inputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        let outputs = self.last.forward(tanh(self.first.forward(inputs)));
        (outputs - targets).powf_scalar(2.0).mean()
    }
}

/// Batch `step`: points of a smooth function, spread evenly by irrational steps so that every run has the same.
pub fn batch(rows: usize, step: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
    let along = |index: usize, step: f64| ((index as f64 * step).fract() * 2.0 - 1.0) as f32;
    let points = step * rows..(step + 1) * rows;
    let inputs: Vec<[f32; 2]> = points
        .map(|index| [along(index, 0.754_877_666), along(index, 0.569_840_290)])
        .collect();
    let targets: Vec<f32> = inputs
        .iter()
        .map(|[x, y]| (2.0 * x).sin() + x * y)
        .collect();
    (
        Tensor::from_data(TensorData::new(inputs.concat(), [rows, 2]), device),
        Tensor::from_data(TensorData::new(targets, [rows, 1]), device),
    )
}
