//! Tiny models and data, made without the random generator: flex has one for the process, and tests run side by side.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Initializer, Module, ModuleMapper, Param, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear,
    LinearConfig,
};
use burn::tensor::activation::{relu, tanh};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::compare::{Values, values};

#[path = "waves.rs"]
pub mod waves;

pub use waves::{device, tensor};

/// Hold this while a test draws random numbers, so that no other test draws from the same generator in between.
pub fn random_numbers() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn ints<const D: usize>(shape: [usize; D], below: i64, device: &Device) -> Tensor<D, Int> {
    let count: usize = shape.iter().product();
    let values: Vec<i64> = (0..count as i64).map(|i| (i * 7 + 3) % below).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// `module` with every trainable parameter set to values of its own.
pub fn filled<M: Module>(module: M) -> M {
    module.map(&mut Fill { next: 1 })
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
        let seed = self.next;
        param.map(|old| {
            tensor(old.dims(), seed, &old.device())
                .mul_scalar(0.5)
                .require_grad()
        })
    }
}

/// `module` with the trainable parameters of these paths set to these values.
pub fn with_parameters<M: Module>(module: M, values: &Values) -> M {
    module.map(&mut Set {
        path: Vec::new(),
        values,
    })
}

struct Set<'a> {
    path: Vec<String>,
    values: &'a Values,
}

impl ModuleMapper for Set<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !param.is_require_grad() {
            return param;
        }
        let values = self.values[&self.path.join(".")].clone();
        param.map(|old| {
            let data = TensorData::new(values, old.dims());
            Tensor::from_data(data, &old.device()).require_grad()
        })
    }
}

pub fn linear(input: usize, output: usize, device: &Device) -> Linear {
    LinearConfig::new(input, output)
        .with_initializer(Initializer::Zeros)
        .init(device)
}

#[derive(Module, Debug)]
pub struct Mlp {
    pub first: Linear,
    pub last: Linear,
}

impl Mlp {
    /// `[rows, 3]` to `[rows, 2]`.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            first: linear(3, 5, device),
            last: linear(5, 2, device),
        })
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.last.forward(tanh(self.first.forward(rows)))
    }
}

#[derive(Module, Debug)]
pub struct ConvNet {
    conv: Conv2d,
    last: Linear,
}

impl ConvNet {
    /// `[rows, 1, 4, 4]` to `[rows, 2]`.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            conv: Conv2dConfig::new([1, 2], [3, 3])
                .with_initializer(Initializer::Zeros)
                .init(device),
            last: linear(8, 2, device),
        })
    }

    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.last
            .forward(tanh(self.conv.forward(images)).flatten(1, 3))
    }
}

#[derive(Module, Debug)]
pub struct Normed {
    pub first: Linear,
    pub norm: BatchNorm,
    pub last: Linear,
}

impl Normed {
    /// `[rows, 3]` to `[rows, 2]`, with BatchNorm between.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            first: linear(3, 4, device),
            norm: BatchNormConfig::new(4).init(device),
            last: linear(4, 2, device),
        })
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.last
            .forward(tanh(self.norm.forward(self.first.forward(rows))))
    }

    pub fn statistics(&self) -> (Vec<f32>, Vec<f32>) {
        (
            values(&self.norm.running_mean.value_sync()),
            values(&self.norm.running_var.value_sync()),
        )
    }
}

#[derive(Module, Debug)]
pub struct Dropping {
    pub first: Linear,
    pub dropout: Dropout,
}

impl Dropping {
    /// `[rows, 3]` to `[rows, 16]`, half of it dropped.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            first: linear(3, 16, device),
            dropout: DropoutConfig::new(0.5).init(),
        })
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.dropout.forward(self.first.forward(rows))
    }
}

#[derive(Module, Debug)]
pub struct Embedded {
    table: Embedding,
    last: Linear,
}

impl Embedded {
    /// `[rows, tokens]` to `[rows, 2]`; tokens are below 6.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            table: EmbeddingConfig::new(6, 3)
                .with_initializer(Initializer::Zeros)
                .init(device),
            last: linear(3, 2, device),
        })
    }

    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<2> {
        let mean: Tensor<2> = self.table.forward(tokens).mean_dim(1).squeeze_dim(1);
        self.last.forward(mean)
    }
}

/// Parameters that are not floats: an index of columns, and a mask of them.
#[derive(Module, Debug)]
pub struct Masked {
    pub columns: Param<Tensor<1, Int>>,
    pub keep: Param<Tensor<1, Bool>>,
    pub last: Linear,
}

impl Masked {
    /// `[rows, 3]` to `[rows, 2]`: columns reversed, the middle one dropped.
    pub fn new(device: &Device) -> Self {
        filled(Self {
            columns: Param::initialized(ParamId::new(), Tensor::from_ints([2, 1, 0], device)),
            keep: Param::initialized(
                ParamId::new(),
                Tensor::from_data(TensorData::from([true, false, true]), device),
            ),
            last: linear(3, 2, device),
        })
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let picked = rows.select(1, self.columns.val());
        let keep = self.keep.val().float().unsqueeze::<2>();
        self.last.forward(picked * keep)
    }
}

/// One parameter used twice in forward.
#[derive(Module, Debug)]
pub struct UsedTwice {
    pub square: Linear,
}

impl UsedTwice {
    pub fn new(device: &Device) -> Self {
        filled(Self {
            square: linear(3, 3, device),
        })
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let hidden = tanh(self.square.forward(rows));
        hidden.matmul(self.square.weight.val().transpose())
    }
}

/// Two fields that hold the same parameter.
#[derive(Module, Debug)]
pub struct TwoFields {
    pub encoder: Linear,
    pub decoder: Linear,
}

impl TwoFields {
    pub fn new(device: &Device) -> Self {
        let encoder = filled(linear(3, 3, device));
        Self {
            decoder: encoder.clone(),
            encoder,
        }
    }

    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        self.decoder.forward(tanh(self.encoder.forward(rows)))
    }
}

/// Modules inside `Vec`, `Option` and tuples.
#[derive(Module, Debug)]
pub struct Nested {
    pub layers: Vec<Linear>,
    pub extra: Option<Mlp>,
    pub absent: Option<Linear>,
    pub pair: (Linear, Linear),
}

impl Nested {
    pub fn new(device: &Device) -> Self {
        filled(Self {
            layers: vec![linear(3, 3, device), linear(3, 3, device)],
            extra: Some(Mlp::new(device)),
            absent: None,
            pair: (linear(2, 2, device), linear(2, 2, device)),
        })
    }

    pub fn forward(&self, mut rows: Tensor<2>) -> Tensor<2> {
        for layer in &self.layers {
            rows = relu(layer.forward(rows)) + 0.1;
        }
        let mut rows = match &self.extra {
            Some(extra) => extra.forward(rows),
            None => rows.slice([0..usize::MAX, 0..2]),
        };
        if let Some(absent) = &self.absent {
            rows = absent.forward(rows);
        }
        self.pair.1.forward(tanh(self.pair.0.forward(rows)))
    }
}
