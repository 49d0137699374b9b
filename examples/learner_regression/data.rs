//! Generated data: a smooth function of two numbers, and batches of it.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Tensor, TensorData};
use burn_dp::Scatter;

/// Points in a batch.
pub const BATCH: usize = 50;

/// One point of the function.
#[derive(Clone, Debug)]
pub struct Point {
    inputs: [f32; 2],
    value: f32,
}

/// `count` points, spread evenly by two irrational steps, so that every run has the same.
pub fn points(count: usize, offset: usize) -> Vec<Point> {
    (offset..offset + count)
        .map(|index| {
            let along = |step: f64| ((index as f64 * step).fract() * 2.0 - 1.0) as f32;
            let [x, y] = [along(0.754_877_666), along(0.569_840_290)];
            Point {
                inputs: [x, y],
                value: (2.0 * x).sin() + x * y,
            }
        })
        .collect()
}

/// A batch. Deriving `Scatter` is all that data parallelism asks of it.
#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    pub inputs: Tensor<2>,
    pub values: Tensor<2>,
}

struct ToBatch;

impl Batcher<Point, Batch> for ToBatch {
    fn batch(&self, points: Vec<Point>, device: &Device) -> Batch {
        let rows = points.len();
        let inputs: Vec<f32> = points.iter().flat_map(|point| point.inputs).collect();
        let values: Vec<f32> = points.iter().map(|point| point.value).collect();
        Batch {
            inputs: Tensor::from_data(TensorData::new(inputs, [rows, 2]), device),
            values: Tensor::from_data(TensorData::new(values, [rows, 1]), device),
        }
    }
}

/// All of `points` as one batch.
pub fn batch(points: Vec<Point>, device: &Device) -> Batch {
    ToBatch.batch(points, device)
}

/// Batches of `points`; shuffled if a seed is given.
pub fn loader(points: Vec<Point>, shuffle: Option<u64>) -> Arc<dyn DataLoader<Batch>> {
    let mut builder = DataLoaderBuilder::new(ToBatch).batch_size(BATCH);
    if let Some(seed) = shuffle {
        builder = builder.shuffle(seed);
    }
    builder.build(InMemDataset::new(points))
}
