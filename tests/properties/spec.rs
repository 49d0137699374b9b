//! What a random module tree is made of, and the tree made of it.

use burn::module::{Initializer, Module, ModuleMapper, Param, ParamId};
use burn::nn::conv::{Conv1dConfig, Conv2dConfig};
use burn::nn::{
    DropoutConfig, Embedding, EmbeddingConfig, GroupNormConfig, LayerNormConfig, Linear,
    LinearConfig, PaddingConfig1d, PaddingConfig2d,
};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use proptest::prelude::*;

use crate::models::{linear, tensor, waves::wave};
use crate::tree::{Block, Columns, Layer, Mask, OUTPUTS, Tree, WIDTH};

#[derive(Clone, Debug)]
pub struct Spec {
    part: Part,
    /// `no_grad()` on the layer with all that is in it, but for what is tied.
    frozen: bool,
}

/// How many places the shared layer has, and which of them take gradients.
#[derive(Clone, Copy, Debug)]
pub enum TiedPlaces {
    /// At most two, which take gradients; a layer of its own stands in every further place.
    Two,
    /// Any number, none of which takes a gradient.
    Frozen,
    /// Any number, each frozen as its own layer or block says.
    Any,
}

#[derive(Clone, Debug)]
enum Part {
    Linear,
    WithoutBias,
    Double,
    Conv1,
    Conv2,
    LayerNorm,
    GroupNorm,
    Embedding,
    Dropout,
    Columns,
    Mask,
    /// The one linear layer that all places of this kind share.
    Tied,
    /// An embedding whose table is the weight of the shared linear layer.
    TiedTable,
    Block {
        layers: Vec<Spec>,
        slots: Vec<Option<Spec>>,
        extra: Option<Vec<Spec>>,
    },
}

/// Up to four layers, some of them blocks of layers.
pub fn layers() -> impl Strategy<Value = Vec<Spec>> {
    let nested = layer().prop_recursive(2, 8, 3, |inner| {
        let many = |range| prop::collection::vec(inner.clone(), range);
        let slots = prop::collection::vec(prop::option::of(inner.clone()), 0..3);
        let parts = (many(0..3), slots, prop::option::of(many(0..3)));
        (parts, frozen()).prop_map(|((layers, slots, extra), frozen)| Spec {
            part: Part::Block {
                layers,
                slots,
                extra,
            },
            frozen,
        })
    });
    prop::collection::vec(nested, 0..5)
}

/// Up to two layers that are no blocks.
pub fn few_layers() -> impl Strategy<Value = Vec<Spec>> {
    prop::collection::vec(layer(), 0..3)
}

fn layer() -> impl Strategy<Value = Spec> {
    let part = prop_oneof![
        Just(Part::Linear),
        Just(Part::WithoutBias),
        Just(Part::Double),
        Just(Part::Conv1),
        Just(Part::Conv2),
        Just(Part::LayerNorm),
        Just(Part::GroupNorm),
        Just(Part::Embedding),
        Just(Part::Dropout),
        Just(Part::Columns),
        Just(Part::Mask),
        // Twice: a place alone is not tied.
        Just(Part::Tied),
        Just(Part::Tied),
        Just(Part::TiedTable),
    ];
    (part, frozen()).prop_map(|(part, frozen)| Spec { part, frozen })
}

fn frozen() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

/// The tree of `layers`; another `seed` gives other values, int and bool ones too.
pub fn tree(layers: &[Spec], tied: TiedPlaces, seed: usize, device: &Device) -> Tree {
    let mut builder = Builder {
        seed: seed * 1000,
        tied: linear(WIDTH, WIDTH, device),
        places: tied,
        used: 0,
        dtype: FloatDType::F32,
        device,
    };
    builder.tied = builder.filled(builder.tied.clone());
    if let TiedPlaces::Frozen = tied {
        builder.tied = builder.tied.no_grad();
    }
    Tree {
        layers: builder.all(layers, false),
        head: builder.filled(linear(WIDTH, OUTPUTS, device)),
    }
}

struct Builder<'a> {
    seed: usize,
    tied: Linear,
    places: TiedPlaces,
    /// Places that the shared layer has so far.
    used: usize,
    dtype: FloatDType,
    device: &'a Device,
}

impl Builder<'_> {
    fn all(&mut self, layers: &[Spec], frozen: bool) -> Vec<Layer> {
        layers.iter().map(|spec| self.one(spec, frozen)).collect()
    }

    /// A frozen block freezes its layers one by one, because only some may be tied.
    fn one(&mut self, spec: &Spec, frozen: bool) -> Layer {
        let frozen = frozen || spec.frozen;
        let layer = self.part(&spec.part, frozen);
        let any = matches!(self.places, TiedPlaces::Any);
        match spec.part {
            Part::Block { .. } => layer,
            Part::Tied | Part::TiedTable if !any => layer,
            _ if frozen => layer.no_grad(),
            _ => layer,
        }
    }

    fn part(&mut self, part: &Part, frozen: bool) -> Layer {
        let device = self.device;
        match part {
            Part::Linear => Layer::Linear(self.filled(linear(WIDTH, WIDTH, device))),
            Part::WithoutBias => {
                let config = LinearConfig::new(WIDTH, WIDTH).with_bias(false);
                let config = config.with_initializer(Initializer::Zeros);
                Layer::Linear(self.filled(config.init(device)))
            }
            Part::Double => {
                self.dtype = FloatDType::F64;
                let layer = self.filled(linear(WIDTH, WIDTH, device));
                self.dtype = FloatDType::F32;
                Layer::Double(layer)
            }
            Part::Conv1 => {
                let config = Conv1dConfig::new(2, 2, 3).with_padding(PaddingConfig1d::Same);
                let config = config.with_initializer(Initializer::Zeros);
                Layer::Conv1(self.filled(config.init(device)))
            }
            Part::Conv2 => {
                let config = Conv2dConfig::new([2, 2], [3, 3]).with_padding(PaddingConfig2d::Same);
                let config = config.with_initializer(Initializer::Zeros);
                Layer::Conv2(self.filled(config.init(device)))
            }
            // A large epsilon: rows that are nearly constant would else multiply errors of rounding.
            Part::LayerNorm => {
                let config = LayerNormConfig::new(WIDTH).with_epsilon(0.1);
                Layer::LayerNorm(self.filled(config.init(device)))
            }
            Part::GroupNorm => {
                let config = GroupNormConfig::new(2, WIDTH).with_epsilon(0.1);
                Layer::GroupNorm(self.filled(config.init(device)))
            }
            Part::Embedding => {
                let config = EmbeddingConfig::new(WIDTH, WIDTH);
                let config = config.with_initializer(Initializer::Zeros);
                Layer::Embedding(self.filled(config.init(device)))
            }
            // Dropout that drops nothing: it makes forwards take turns all the same.
            Part::Dropout => Layer::Dropout(DropoutConfig::new(0.0).init()),
            Part::Columns => {
                let first = self.next();
                let order: Vec<_> = (0..WIDTH)
                    .map(|i| ((i * 3 + first) % WIDTH) as i32)
                    .collect();
                let order = Tensor::from_data(TensorData::from(&*order), device);
                Layer::Columns(Columns {
                    order: Param::initialized(ParamId::new(), order),
                })
            }
            Part::Mask => {
                let keep = wave(WIDTH, self.next()).iter().map(|&x| x > -0.5).collect();
                let keep = Tensor::from_data(TensorData::new(keep, [1, WIDTH]), device);
                Layer::Mask(Mask {
                    keep: Param::initialized(ParamId::new(), keep),
                })
            }
            Part::Tied => Layer::Linear(self.shared()),
            Part::TiedTable => Layer::Embedding(Embedding {
                weight: self.shared().weight,
            }),
            Part::Block {
                layers,
                slots,
                extra,
            } => Layer::Block(Block {
                layers: self.all(layers, frozen),
                slots: slots
                    .iter()
                    .map(|slot| slot.as_ref().map(|spec| self.one(spec, frozen)))
                    .collect(),
                extra: extra.as_ref().map(|layers| self.all(layers, frozen)),
            }),
        }
    }

    fn shared(&mut self) -> Linear {
        self.used += 1;
        match self.places {
            TiedPlaces::Two if self.used > 2 => self.filled(linear(WIDTH, WIDTH, self.device)),
            _ => self.tied.clone(),
        }
    }

    fn next(&mut self) -> usize {
        self.seed += 1;
        self.seed
    }

    fn filled<M: Module>(&mut self, module: M) -> M {
        module.map(self)
    }
}

impl ModuleMapper for Builder<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (seed, dtype) = (self.next(), self.dtype);
        param.map(|old| {
            tensor(old.dims(), seed, &old.device())
                .mul_scalar(0.5)
                .cast(dtype)
                .require_grad()
        })
    }
}
