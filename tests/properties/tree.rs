//! A module whose structure is made at run time.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv1d, Conv2d};
use burn::nn::{Dropout, Embedding, GroupNorm, LayerNorm, Linear};
use burn::tensor::activation::tanh;
use burn::tensor::{Bool, FloatDType, Int, Tensor};

/// Columns of the input and of what every layer gives.
pub const WIDTH: usize = 8;
/// Columns of the output.
pub const OUTPUTS: usize = 3;
/// Tokens a row.
pub const TOKENS: usize = 3;

#[derive(Module, Debug)]
pub struct Tree {
    pub layers: Vec<Layer>,
    /// Trains always, so that there is a gradient though all layers are frozen.
    pub head: Linear,
}

#[allow(clippy::large_enum_variant)] // a `Box` is no module
#[derive(Module, Debug)]
pub enum Layer {
    Linear(Linear),
    /// In numbers of 64 bits.
    Double(Linear),
    Conv1(Conv1d),
    Conv2(Conv2d),
    LayerNorm(LayerNorm),
    GroupNorm(GroupNorm),
    Embedding(Embedding),
    Dropout(Dropout),
    Columns(Columns),
    Mask(Mask),
    Block(Block),
}

/// The order of columns: an int parameter.
#[derive(Module, Debug)]
pub struct Columns {
    pub order: Param<Tensor<1, Int>>,
}

/// The columns that are kept: a bool parameter.
#[derive(Module, Debug)]
pub struct Mask {
    pub keep: Param<Tensor<2, Bool>>,
}

#[derive(Module, Debug)]
pub struct Block {
    pub layers: Vec<Layer>,
    pub slots: Vec<Option<Layer>>,
    pub extra: Option<Vec<Layer>>,
}

impl Tree {
    /// `[rows, WIDTH]` and tokens `[rows, TOKENS]` to `[rows, OUTPUTS]`.
    pub fn forward(&self, x: Tensor<2>, tokens: Tensor<2, Int>) -> Tensor<2> {
        self.head.forward(through(&self.layers, x, &tokens))
    }
}

fn through<'a>(
    layers: impl IntoIterator<Item = &'a Layer>,
    x: Tensor<2>,
    tokens: &Tensor<2, Int>,
) -> Tensor<2> {
    // Bounded after every layer, so that errors of rounding stay small however deep the tree is.
    layers
        .into_iter()
        .fold(x, |x, layer| tanh(layer.forward(x, tokens)))
}

impl Layer {
    fn forward(&self, x: Tensor<2>, tokens: &Tensor<2, Int>) -> Tensor<2> {
        let rows = x.dims()[0];
        match self {
            Layer::Linear(linear) => linear.forward(x),
            Layer::Double(linear) => linear
                .forward(x.cast(FloatDType::F64))
                .cast(FloatDType::F32),
            Layer::Conv1(conv) => conv
                .forward(x.reshape([rows, 2, WIDTH / 2]))
                .reshape([rows, WIDTH]),
            Layer::Conv2(conv) => conv
                .forward(x.reshape([rows, 2, 2, WIDTH / 4]))
                .reshape([rows, WIDTH]),
            Layer::LayerNorm(norm) => norm.forward(x),
            Layer::GroupNorm(norm) => norm.forward(x),
            Layer::Embedding(table) => {
                let mean: Tensor<2> = table.forward(tokens.clone()).mean_dim(1).squeeze_dim(1);
                x + mean
            }
            Layer::Dropout(dropout) => dropout.forward(x),
            Layer::Columns(columns) => x.select(1, columns.order.val()),
            Layer::Mask(mask) => x * mask.keep.val().float(),
            Layer::Block(block) => {
                let x = through(&block.layers, x, tokens);
                let x = through(block.slots.iter().flatten(), x, tokens);
                through(block.extra.iter().flatten(), x, tokens)
            }
        }
    }
}
