//! A model with an `optimize` of its own: it is called, and replicas follow what it changes, which is not all parameters.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use crate::launch::{Training, WAYS, Way};
use crate::models::{Batch, CLASSES, Classifier, FEATURES, device, filled};

/// Its weights stay small, and its temperature falls with every step.
#[derive(Module, Debug)]
struct Clipped {
    linear: Linear,
    #[module(skip)]
    steps: usize,
}

const LIMIT: f32 = 0.6;

impl Clipped {
    fn new(device: &Device) -> Self {
        let linear = LinearConfig::new(FEATURES, CLASSES).init(device);
        filled(Clipped { linear, steps: 0 }, 7)
    }
}

impl Classifier for Clipped {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.linear
            .forward(inputs)
            .mul_scalar(1.0 + self.steps as f32)
    }
}

impl TrainStep for Clipped {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        let mut stepped = optim.step(lr, self, grads);
        stepped.steps += 1;
        stepped.linear.weight = stepped.linear.weight.map(clip);
        stepped
    }
}

fn clip(weight: Tensor<2>) -> Tensor<2> {
    weight.clamp(-LIMIT, LIMIT).detach().require_grad()
}

impl InferenceStep for Clipped {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

#[test]
fn replicas_follow_all_that_optimize_changes() {
    let bare = Training::default().run(Clipped::new(&device()), Way::Bare);
    let largest = bare.parameters["linear.weight"]
        .iter()
        .fold(0.0f32, |largest, weight| largest.max(weight.abs()));
    assert_eq!(largest, LIMIT, "the clipping is seen");
    for way in WAYS {
        let outcome = Training::default().run(Clipped::new(&device()), way);
        outcome.assert_close(&format!("{way:?}"), &bare);
    }
}

#[test]
fn the_skipped_field_matters_here() {
    let moved = |steps| {
        let mut model = Clipped::new(&device());
        model.steps = steps;
        Training::default()
            .run(model, Way::Bare)
            .trace
            .of("train Loss")
    };
    assert_ne!(moved(0), moved(1));
    let _: Param<Tensor<2>> = Clipped::new(&device()).linear.weight;
}
