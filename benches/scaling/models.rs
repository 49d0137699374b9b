//! The nets that are timed. `torch_peer.py` holds the same ones.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_dp::Scatter;
use clap::ValueEnum;
use serde::Serialize;

use crate::options::Size;

const CLASSES: usize = 10;
const VOCABULARY: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Large matrix products, many bytes of parameters
    Mlp,
    /// A net for MNIST
    Conv,
    /// An encoder
    Transformer,
    /// 200 small parameters
    Tiny,
}

/// Sizes of a net and its batch.
#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    pub batch: usize,
    pub width: usize,
    pub layers: usize,
    /// Values of one row of the input.
    pub input: usize,
}

impl Shape {
    pub fn describe(&self) -> String {
        format!(
            "batch {}, width {}, {} layers, {} inputs a row",
            self.batch, self.width, self.layers, self.input
        )
    }
}

impl Kind {
    pub fn shape(self, size: Size) -> Shape {
        let (batch, width, layers, input) = match (self, size) {
            (Kind::Mlp, Size::Small) => (256, 256, 8, 256),
            (Kind::Mlp, Size::Full) => (8192, 4096, 8, 4096),
            (Kind::Conv, Size::Small) => (32, 16, 2, 784),
            (Kind::Conv, Size::Full) => (1024, 32, 2, 784),
            (Kind::Transformer, Size::Small) => (16, 64, 2, 16),
            (Kind::Transformer, Size::Full) => (64, 512, 8, 128),
            (Kind::Tiny, _) => (64, 16, 100, 16),
        };
        Shape {
            batch,
            width,
            layers,
            input,
        }
    }
}

/// `inputs`: `[rows, input]`, `targets`: `[rows]`.
#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    pub inputs: Tensor<2>,
    pub targets: Tensor<1, Int>,
}

impl Batch {
    pub fn random(kind: Kind, shape: &Shape, rows: usize, device: &Device) -> Self {
        let distribution = match kind {
            Kind::Transformer => Distribution::Uniform(0.0, VOCABULARY as f64 - 1.0),
            _ => Distribution::Normal(0.0, 1.0),
        };
        Self {
            inputs: Tensor::random([rows, shape.input], distribution, device),
            targets: Tensor::<1>::random(
                [rows],
                Distribution::Uniform(0.0, CLASSES as f64 - 1.0),
                device,
            )
            .int(),
        }
    }

    pub fn rows(&self, start: usize, rows: usize, device: &Device) -> Self {
        Self {
            inputs: self.inputs.clone().narrow(0, start, rows).to_device(device),
            targets: self
                .targets
                .clone()
                .narrow(0, start, rows)
                .to_device(device),
        }
    }
}

#[allow(clippy::large_enum_variant)] // a few exist at a time
#[derive(Module, Debug)]
pub enum Net {
    Layers(Layers),
    Conv(Conv),
    Transformer(Transformer),
}

#[derive(Module, Debug)]
pub struct Layers {
    layers: Vec<Linear>,
    head: Linear,
}

#[derive(Module, Debug)]
pub struct Conv {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    head: Linear,
}

#[derive(Module, Debug)]
pub struct Transformer {
    embedding: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl Net {
    pub fn new(kind: Kind, shape: &Shape, device: &Device) -> Self {
        let (width, layers) = (shape.width, shape.layers);
        let linear = |from, to| LinearConfig::new(from, to).init(device);
        match kind {
            Kind::Mlp | Kind::Tiny => Net::Layers(Layers {
                layers: (0..layers).map(|_| linear(width, width)).collect(),
                head: linear(width, CLASSES),
            }),
            Kind::Conv => {
                let conv = |from, to| {
                    Conv2dConfig::new([from, to], [3, 3])
                        .with_padding(PaddingConfig2d::Same)
                        .init(device)
                };
                Net::Conv(Conv {
                    conv1: conv(1, width),
                    conv2: conv(width, 2 * width),
                    pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
                    hidden: linear(2 * width * 14 * 14, 128),
                    head: linear(128, CLASSES),
                })
            }
            Kind::Transformer => Net::Transformer(Transformer {
                embedding: EmbeddingConfig::new(VOCABULARY, width).init(device),
                encoder: TransformerEncoderConfig::new(width, 4 * width, 8, layers)
                    .with_dropout(0.0)
                    .init(device),
                head: linear(width, CLASSES),
            }),
        }
    }

    pub fn loss(&self, batch: Batch) -> Tensor<1> {
        let logits = match self {
            Net::Layers(net) => {
                let hidden = net
                    .layers
                    .iter()
                    .fold(batch.inputs, |x, layer| relu(layer.forward(x)));
                net.head.forward(hidden)
            }
            Net::Conv(net) => {
                let rows = batch.inputs.dims()[0];
                let x = batch.inputs.reshape([rows, 1, 28, 28]);
                let x = relu(net.conv1.forward(x));
                let x = net.pool.forward(relu(net.conv2.forward(x)));
                net.head
                    .forward(relu(net.hidden.forward(x.flatten::<2>(1, 3))))
            }
            Net::Transformer(net) => {
                let x = net.embedding.forward(batch.inputs.int());
                let x = net.encoder.forward(TransformerEncoderInput::new(x));
                net.head.forward(x.mean_dim(1).squeeze_dim::<2>(1))
            }
        };
        CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits, batch.targets)
    }
}
