//! Data, and tiny models that train on it, made without the random generator: tests run side by side.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, DatasetError, InMemDataset};
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_dp::Scatter;

#[path = "../behaviour/waves.rs"]
mod waves;

use waves::wave;
pub use waves::{device, tensor};

/// `module` with values of its own in every trainable parameter.
pub fn filled<M: Module>(module: M, seed: usize) -> M {
    module.map(&mut Fill { next: seed })
}

struct Fill {
    next: usize,
}

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Buffers keep their values: a variance below 0 would be NaN.
        if !param.is_require_grad() {
            return param;
        }
        self.next += 1;
        let (seed, device) = (self.next, param.lazy_device());
        param.map(|old| tensor(old.dims(), seed, &device).detach().require_grad())
    }
}

pub const FEATURES: usize = 3;
pub const CLASSES: usize = 4;

#[derive(Clone, Debug)]
pub struct Item {
    features: Vec<f32>,
    class: i64,
}

pub fn items(count: usize, seed: usize) -> Vec<Item> {
    (0..count)
        .map(|index| Item {
            features: wave(FEATURES, 1000 * seed + index),
            class: (index * 7 + seed) as i64 % CLASSES as i64,
        })
        .collect()
}

/// A row that [`Net`] refuses.
pub fn poisoned() -> Item {
    Item {
        features: vec![f32::NAN; FEATURES],
        class: 0,
    }
}

#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    pub inputs: Tensor<2>,
    pub targets: Tensor<1, Int>,
}

pub struct ToBatch;

impl Batcher<Item, Batch> for ToBatch {
    fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
        let rows = items.len();
        let classes: Vec<i64> = items.iter().map(|item| item.class).collect();
        let inputs: Vec<f32> = items.into_iter().flat_map(|item| item.features).collect();
        Batch {
            inputs: Tensor::from_data(TensorData::new(inputs, [rows, FEATURES]), device),
            targets: Tensor::from_data(TensorData::new(classes, [rows]), device),
        }
    }
}

/// Batches in the order of the items, so that two runs see the same.
pub fn loader(items: Vec<Item>, batch_size: usize) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ToBatch)
        .batch_size(batch_size)
        .build(InMemDataset::new(items))
}

/// Items that are there but one, which cannot be read.
pub struct Unreadable {
    pub items: Vec<Item>,
    pub index: usize,
}

impl Dataset<Item> for Unreadable {
    fn get(&self, index: usize) -> Result<Item, DatasetError> {
        if index == self.index {
            return Err(DatasetError::new(std::io::Error::other("the file is gone")));
        }
        Ok(self.items[index].clone())
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}

/// What all models of these tests have in common.
pub trait Classifier: Module {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2>;

    fn classify(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.logits(batch.inputs);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), batch.targets.clone());
        ClassificationOutput::new(loss, logits, batch.targets)
    }
}

macro_rules! steps {
    ($($model:ident),+) => {$(
        impl TrainStep for $model {
            type Input = Batch;
            type Output = ClassificationOutput;

            fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
                let output = self.classify(batch);
                TrainOutput::new(self, output.loss.backward(), output)
            }
        }

        impl InferenceStep for $model {
            type Input = Batch;
            type Output = ClassificationOutput;

            fn step(&self, batch: Batch) -> ClassificationOutput {
                self.classify(batch)
            }
        }
    )+};
}

/// Two layers; refuses a row that is not a number.
#[derive(Module, Debug)]
pub struct Net {
    first: Linear,
    last: Linear,
}

impl Net {
    pub fn new(device: &Device, seed: usize) -> Self {
        let net = Net {
            first: LinearConfig::new(FEATURES, 5).init(device),
            last: LinearConfig::new(5, CLASSES).init(device),
        };
        filled(net, seed)
    }
}

impl Classifier for Net {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        let refused = inputs.clone().is_nan().any().into_scalar::<bool>();
        assert!(!refused, "the input is not a number");
        self.last.forward(tanh(self.first.forward(inputs)))
    }
}

/// A model with running statistics.
#[derive(Module, Debug)]
pub struct Normed {
    norm: BatchNorm,
    last: Linear,
}

impl Normed {
    pub fn new(device: &Device, seed: usize) -> Self {
        let net = Normed {
            norm: BatchNormConfig::new(FEATURES).init(device),
            last: LinearConfig::new(FEATURES, CLASSES).init(device),
        };
        filled(net, seed)
    }
}

impl Classifier for Normed {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.last.forward(self.norm.forward(inputs))
    }
}

/// One layer: few operations, for devices where each takes long.
#[derive(Module, Debug)]
pub struct Small {
    only: Linear,
}

impl Small {
    pub fn new(device: &Device) -> Self {
        filled(
            Small {
                only: LinearConfig::new(FEATURES, CLASSES).init(device),
            },
            3,
        )
    }
}

impl Classifier for Small {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.only.forward(inputs)
    }
}

steps!(Net, Normed, Small);
