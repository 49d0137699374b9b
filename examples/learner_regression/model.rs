//! The model, as one writes it for burn-train: nothing here knows of replicas.

use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};

use crate::data::Batch;

/// Two layers.
#[derive(Module, Debug)]
pub struct Regressor {
    first: Linear,
    last: Linear,
}

impl Regressor {
    pub fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(2, 32).init(device),
            last: LinearConfig::new(32, 1).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.last.forward(tanh(self.first.forward(inputs)))
    }

    fn predict(&self, batch: Batch) -> RegressionOutput {
        let output = self.forward(batch.inputs);
        // A mean over the rows, so that replicas' losses are weighted by their rows.
        let loss = MseLoss::new().forward(output.clone(), batch.values.clone(), Reduction::Mean);
        RegressionOutput::new(loss, output, batch.values)
    }
}

impl TrainStep for Regressor {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = self.predict(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Regressor {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.predict(batch)
    }
}
