//! The net: two convolutions, a pool, two linear layers.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::tensor::{Device, Tensor};

#[derive(Module, Debug)]
pub struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    linear1: Linear,
    linear2: Linear,
    relu: Relu,
}

impl Net {
    pub fn new(height: usize, width: usize, classes: usize, device: &Device) -> Self {
        let conv = |from, to| {
            Conv2dConfig::new([from, to], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device)
        };
        let features = 32 * (height / 2) * (width / 2);
        Self {
            conv1: conv(1, 16),
            conv2: conv(16, 32),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            linear1: LinearConfig::new(features, 128).init(device),
            linear2: LinearConfig::new(128, classes).init(device),
            relu: Relu::new(),
        }
    }

    /// # Shapes
    ///
    /// `[rows, height, width]` to `[rows, classes]`
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        let x = images.unsqueeze_dim::<4>(1);
        let x = self.relu.forward(self.conv1.forward(x));
        let x = self.pool.forward(self.relu.forward(self.conv2.forward(x)));
        let x = self
            .relu
            .forward(self.linear1.forward(x.flatten::<2>(1, 3)));
        self.linear2.forward(x)
    }
}
