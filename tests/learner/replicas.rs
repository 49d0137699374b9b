//! Training and validation both run on all replicas, each with its own rows.

use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use crate::launch::{Training, Way};
use crate::models::{Batch, Classifier, Small, device};

/// The rows of every step, in training and in validation. One test alone trains this model.
static STEPS: Mutex<[Vec<usize>; 2]> = Mutex::new([Vec::new(), Vec::new()]);

/// Takes the rows noted so far. Replicas run side by side, so their order is by chance.
fn taken() -> [Vec<usize>; 2] {
    let mut steps = std::mem::take(&mut *STEPS.lock().unwrap_or_else(PoisonError::into_inner));
    steps.iter_mut().for_each(|rows| rows.sort_unstable());
    steps
}

/// Notes its steps.
#[derive(Module, Debug)]
struct Spy {
    model: Small,
}

impl Spy {
    fn new(device: &Device) -> Self {
        Self {
            model: Small::new(device),
        }
    }

    fn step(&self, batch: Batch, kind: usize) -> ClassificationOutput {
        let rows = batch.targets.dims()[0];
        STEPS.lock().unwrap_or_else(PoisonError::into_inner)[kind].push(rows);
        self.classify(batch)
    }
}

impl Classifier for Spy {
    fn logits(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.model.logits(inputs)
    }
}

impl TrainStep for Spy {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = Spy::step(self, batch, 0);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Spy {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        Spy::step(self, batch, 1)
    }
}

#[test]
fn every_replica_gets_its_rows() {
    let steps = |way| {
        let training = Training {
            epochs: 1,
            ..Training::default()
        };
        training.run(Spy::new(&device()), way);
        taken()
    };
    assert_eq!(steps(Way::Bare), [vec![1, 5, 5], vec![1, 3, 3]]);
    for way in [Way::Wrapped(2), Way::Strategy(2)] {
        let expected = [vec![1, 2, 2, 3, 3], vec![1, 1, 1, 2, 2]];
        assert_eq!(steps(way), expected, "{way:?}");
    }
    for way in [Way::Wrapped(3), Way::Strategy(3)] {
        let expected = [vec![1, 1, 1, 2, 2, 2, 2], vec![1; 7]];
        assert_eq!(steps(way), expected, "{way:?}");
    }
}
