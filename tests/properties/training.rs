//! A plan carried out, bare and wrapped.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DataParallelConfig, DeviceIds};

use crate::compare::{
    Values, assert_close, assert_values_close, bits, gradients, parameters, values,
};
use crate::models::device;
use crate::plan::{Batch, Entrance, Plan};
use crate::tree::Tree;

pub const TOLERANCE: f64 = 1e-5;

/// Loss, output and gradients of one step.
pub type Step = ((Tensor<1>, Tensor<2>), GradientsParams);

/// What training gave, step by step.
#[derive(Default)]
pub struct Run {
    pub losses: Vec<f32>,
    pub outputs: Vec<Vec<f32>>,
    pub gradients: Vec<Values>,
    pub parameters: Values,
}

impl Plan {
    pub fn bare(&self) -> Run {
        self.run(self.model(&device()), |model, batch| {
            let output = batch.output(model);
            let loss = batch.loss(output.clone(), self.weight).value().clone();
            let grads = GradientsParams::from_grads(loss.clone().backward(), model);
            ((loss, output), grads)
        })
    }

    pub fn wrap(&self, model: Tree, ids: impl Into<DeviceIds>) -> DataParallel<Tree> {
        DataParallelConfig::new()
            .with_bucket_bytes(self.bucket_bytes)
            .init_on(model, ids)
            .expect("it wraps")
    }

    pub fn wrapped(&self, ids: impl Into<DeviceIds>) -> Run {
        let model = self.wrap(self.model(&device()), ids);
        self.run(model, |model, batch| self.step(model, batch))
    }

    pub fn repeated(&self) -> Run {
        self.wrapped(DeviceIds::repeat(0, self.replicas))
    }

    pub fn step(&self, model: &DataParallel<Tree>, batch: Batch) -> Step {
        let weight = self.weight;
        match self.entrance {
            Entrance::TrainStep => model
                .train_step(batch, move |replica: &Tree, shard: Batch| {
                    let output = shard.output(replica);
                    (shard.loss(output.clone(), weight), output)
                })
                .expect("the step works"),
            Entrance::Forward => {
                let output = model
                    .forward(batch.clone(), |replica: &Tree, shard: Batch| {
                        shard.output(replica)
                    })
                    .expect("forward works");
                let batch = batch_on(batch, &output);
                let loss = batch.loss(output.clone(), weight).value().clone();
                let grads = GradientsParams::from_grads(loss.clone().backward(), model);
                ((loss, output), grads)
            }
        }
    }

    fn run<M: Module>(&self, mut model: M, step: impl Fn(&M, Batch) -> Step) -> Run {
        let (mut optim, rate) = self.optim();
        let mut run = Run::default();
        for batch in self.batches(&device()) {
            let ((loss, output), grads) = step(&model, batch);
            run.losses.push(loss.into_scalar());
            run.outputs.push(values(&output));
            run.gradients.push(gradients(&model, &grads));
            model = optim.step(rate, model, grads);
        }
        run.parameters = parameters(&model);
        run
    }
}

/// What the loss of a gathered output needs, on the output's device.
fn batch_on(batch: Batch, output: &Tensor<2>) -> Batch {
    let device = output.device();
    Batch {
        target: batch.target.to_device(&device),
        kept: batch.kept.to_device(&device),
        column_weights: batch.column_weights.to_device(&device),
        ..batch
    }
}

impl Run {
    #[track_caller]
    pub fn assert_close_to(&self, other: &Run) {
        assert_values_close("losses", &self.losses, &other.losses, TOLERANCE);
        assert_eq!(self.outputs.len(), other.outputs.len());
        for (step, (left, right)) in self.outputs.iter().zip(&other.outputs).enumerate() {
            assert_values_close(&format!("outputs of step {step}"), left, right, TOLERANCE);
        }
        assert_eq!(self.gradients.len(), other.gradients.len());
        for (step, (left, right)) in self.gradients.iter().zip(&other.gradients).enumerate() {
            assert_close(&format!("gradients of step {step}"), left, right, TOLERANCE);
        }
        assert_close("parameters", &self.parameters, &other.parameters, TOLERANCE);
    }

    #[track_caller]
    pub fn assert_same_bits(&self, other: &Run) {
        let bits_of = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits_of(&self.losses), bits_of(&other.losses), "losses");
        let outputs = |run: &Run| run.outputs.iter().map(|x| bits_of(x)).collect::<Vec<_>>();
        assert_eq!(outputs(self), outputs(other), "outputs");
        let gradients = |run: &Run| run.gradients.iter().map(bits).collect::<Vec<_>>();
        assert_eq!(gradients(self), gradients(other), "gradients");
        assert_eq!(
            bits(&self.parameters),
            bits(&other.parameters),
            "parameters"
        );
    }
}
