//! A random training: a tree, how it is wrapped, and what it is trained on.

use burn::optim::{AdamConfig, ModuleOptimizer, SgdConfig};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn_dp::{Loss, Scatter};
use proptest::prelude::*;

use crate::models::{tensor, waves::wave};
use crate::spec::{Spec, TiedPlaces, few_layers, layers, tree};
use crate::tree::{OUTPUTS, TOKENS, Tree, WIDTH};

#[derive(Clone, Debug)]
pub struct Plan {
    pub layers: Vec<Spec>,
    pub tied: TiedPlaces,
    /// Rows of the batch of each step.
    pub rows: Vec<usize>,
    pub replicas: usize,
    pub bucket_bytes: usize,
    pub weight: Weight,
    pub entrance: Entrance,
    pub optim: Optim,
    pub seed: usize,
}

/// What the loss is: see `LossWeight`.
#[derive(Clone, Copy, Debug)]
pub enum Weight {
    Rows,
    Items,
    Sum,
}

#[derive(Clone, Copy, Debug)]
pub enum Entrance {
    TrainStep,
    Forward,
}

#[derive(Clone, Copy, Debug)]
pub enum Optim {
    Sgd,
    Adam,
}

pub fn plan() -> impl Strategy<Value = Plan> {
    let rows = prop::collection::vec(1usize..=20, 1..4);
    of(layers(), rows, 1usize..=8)
}

/// For devices whose every answer takes long.
pub fn small_plan(replicas: usize) -> impl Strategy<Value = Plan> {
    let rows = prop::collection::vec(1usize..=7, 1..3);
    of(few_layers(), rows, replicas..=replicas)
}

fn of(
    layers: impl Strategy<Value = Vec<Spec>>,
    rows: impl Strategy<Value = Vec<usize>>,
    replicas: impl Strategy<Value = usize>,
) -> impl Strategy<Value = Plan> {
    let bucket_bytes = prop_oneof![Just(1), 2usize..64, 64usize..4096, Just(25 << 20)];
    let weight = prop_oneof![Just(Weight::Rows), Just(Weight::Items), Just(Weight::Sum)];
    let entrance = prop_oneof![2 => Just(Entrance::TrainStep), 1 => Just(Entrance::Forward)];
    let optim = prop_oneof![Just(Optim::Sgd), Just(Optim::Adam)];
    let tied = prop_oneof![3 => Just(TiedPlaces::Two), 1 => Just(TiedPlaces::Frozen)];
    let rest = (bucket_bytes, weight, entrance, optim, tied, 0usize..1000);
    (layers, rows, replicas, rest).prop_map(
        |(layers, rows, replicas, (bucket_bytes, weight, entrance, optim, tied, seed))| Plan {
            layers,
            tied,
            rows,
            replicas,
            bucket_bytes,
            weight,
            entrance,
            optim,
            seed,
        },
    )
}

#[derive(Scatter, Clone)]
pub struct Batch {
    pub x: Tensor<2>,
    #[scatter(dim = 1)]
    pub tokens: Tensor<2, Int>,
    pub target: Tensor<2>,
    pub kept: Tensor<2, Bool>,
    #[scatter(shared)]
    pub column_weights: Tensor<1>,
}

impl Batch {
    fn new(rows: usize, seed: usize, device: &Device) -> Self {
        let random = |count| wave(count, seed);
        let tokens = random(TOKENS * rows).into_iter();
        let tokens = tokens.map(|x| ((x + 1.0) * 4.0) as i32 % WIDTH as i32);
        let mut kept: Vec<bool> = random(rows * OUTPUTS).iter().map(|&x| x > 0.3).collect();
        // A batch of no items has no mean. A shard of none has none either, and is left out.
        kept[rows / 2] = true;
        Self {
            x: tensor([rows, WIDTH], seed, device),
            tokens: Tensor::from_data(TensorData::new(tokens.collect(), [TOKENS, rows]), device),
            target: tensor([rows, OUTPUTS], seed + 1, device),
            kept: Tensor::from_data(TensorData::new(kept, [rows, OUTPUTS]), device),
            column_weights: Tensor::from_floats([1.0, 0.5, 0.25], device),
        }
    }

    pub fn output(&self, model: &Tree) -> Tensor<2> {
        let tokens = self.tokens.clone().transpose();
        model.forward(self.x.clone(), tokens)
    }

    pub fn loss(&self, output: Tensor<2>, weight: Weight) -> Loss {
        let squared = (output - self.target.clone()).powf_scalar(2.0);
        let squared = squared * self.column_weights.clone().unsqueeze();
        match weight {
            Weight::Rows => Loss::mean(squared.mean()),
            Weight::Items => {
                let kept = self.kept.clone().float();
                let items = f64::from(kept.clone().sum().into_scalar::<f32>());
                Loss::mean_over((squared * kept).sum().div_scalar(items), items)
            }
            Weight::Sum => Loss::sum(squared.mean_dim(1).sum()),
        }
    }
}

impl Plan {
    pub fn model(&self, device: &Device) -> Tree {
        tree(&self.layers, self.tied, self.seed, device)
    }

    pub fn batches(&self, device: &Device) -> Vec<Batch> {
        let steps = self.rows.iter().enumerate();
        steps
            .map(|(step, &rows)| Batch::new(rows, self.seed + 10 * step, device))
            .collect()
    }

    pub fn optim(&self) -> (ModuleOptimizer, f64) {
        match self.optim {
            Optim::Sgd => (SgdConfig::new().init(), 0.05),
            // Adam divides a gradient by its size: with a small epsilon an error of rounding where the gradient is 0 would
            // become a whole step.
            Optim::Adam => (AdamConfig::new().with_epsilon(1e-3).init(), 0.005),
        }
    }
}
