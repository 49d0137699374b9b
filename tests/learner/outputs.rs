//! burn-train's outputs, gathered from replicas, are those of one device on the whole batch.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};
use burn::train::{
    ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput,
};
use burn_dp::{DataParallel, DataParallelConfig, DataParallelError, DeviceIds};

use crate::compare::{assert_values_close, values};
use crate::models::{device, filled, tensor};

const CLASSES: usize = 4;
const LENGTH: usize = 3;

fn linear() -> Linear {
    filled(LinearConfig::new(3, CLASSES).init(&device()), 1)
}

fn classes<const D: usize>(shape: [usize; D]) -> Tensor<D, Int> {
    let count: usize = shape.iter().product();
    Tensor::<1, Int>::arange(0..count as i64, &device())
        .mul_scalar(7)
        .remainder_scalar(CLASSES as i64)
        .reshape(shape)
}

fn ints<const D: usize>(tensor: &Tensor<D, Int>) -> Vec<i64> {
    tensor.to_data().iter::<i64>().collect()
}

fn classification(
    model: &Linear,
    (x, targets): (Tensor<2>, Tensor<1, Int>),
) -> ClassificationOutput {
    let output = model.forward(x);
    let loss = CrossEntropyLossConfig::new()
        .init(&output.device())
        .forward(output.clone(), targets.clone());
    ClassificationOutput::new(loss, output, targets)
}

fn regression(model: &Linear, (x, targets): (Tensor<2>, Tensor<2>)) -> RegressionOutput {
    let output = model.forward(x);
    let loss = (output.clone() - targets.clone()).powf_scalar(2.0).mean();
    RegressionOutput::new(loss, output, targets)
}

fn labels(
    model: &Linear,
    (x, targets): (Tensor<2>, Tensor<2, Int>),
) -> MultiLabelClassificationOutput {
    let output = model.forward(x);
    let loss = (output.clone() - targets.clone().float()).abs().mean();
    MultiLabelClassificationOutput::new(loss, output, targets)
}

fn sequence(model: &Linear, (x, targets): (Tensor<3>, Tensor<2, Int>)) -> SequenceOutput {
    let logits = model.forward(x);
    let [rows, length] = targets.dims();
    let loss = CrossEntropyLossConfig::new()
        .init(&logits.device())
        .forward(
            logits.clone().reshape([rows * length, CLASSES]),
            targets.clone().reshape([rows * length]),
        );
    let predictions = logits.clone().argmax(2).squeeze_dim::<2>(2);
    SequenceOutput::new(loss, logits, Some(predictions), targets)
}

fn assert_same<const D: usize>(what: &str, found: &Tensor<D>, expected: &Tensor<D>) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    assert_values_close(what, &values(found), &values(expected), 1e-6);
}

/// Every batch of 1 to 9 rows on 1 to 4 replicas.
fn everywhere(check: impl Fn(usize, DataParallel<Linear>)) {
    for rows in 1..10 {
        for replicas in 1..5 {
            let model = DataParallel::new(linear(), DeviceIds::repeat(0, replicas)).unwrap();
            check(rows, model);
        }
    }
}

#[test]
fn classification_output() {
    everywhere(|rows, model| {
        let batch = || (tensor([rows, 3], 1, &device()), classes([rows]));
        let expected = classification(model.module(), batch());
        let found = model.forward(batch(), classification).unwrap();
        assert_same("loss", &found.loss, &expected.loss);
        assert_same("output", &found.output, &expected.output);
        assert_eq!(ints(&found.targets), ints(&expected.targets));

        // The output is part of the graph, as the bare one is.
        let grads = |loss: Tensor<1>| {
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            grads
                .get::<2>(model.module().weight.id)
                .expect("a gradient")
        };
        assert_same("gradient", &grads(found.loss), &grads(expected.loss));
    });
}

#[test]
fn regression_output() {
    everywhere(|rows, model| {
        let batch = || {
            (
                tensor([rows, 3], 1, &device()),
                tensor([rows, CLASSES], 2, &device()),
            )
        };
        let expected = regression(model.module(), batch());
        let found = model.forward(batch(), regression).unwrap();
        assert_same("loss", &found.loss, &expected.loss);
        assert_same("output", &found.output, &expected.output);
        assert_same("targets", &found.targets, &expected.targets);
    });
}

#[test]
fn multi_label_classification_output() {
    everywhere(|rows, model| {
        let batch = || (tensor([rows, 3], 1, &device()), classes([rows, CLASSES]));
        let expected = labels(model.module(), batch());
        let found = model.forward(batch(), labels).unwrap();
        assert_same("loss", &found.loss, &expected.loss);
        assert_same("output", &found.output, &expected.output);
        assert_eq!(ints(&found.targets), ints(&expected.targets));
    });
}

#[test]
fn sequence_output() {
    everywhere(|rows, model| {
        let batch = || {
            (
                tensor([rows, LENGTH, 3], 1, &device()),
                classes([rows, LENGTH]),
            )
        };
        let expected = sequence(model.module(), batch());
        let found = model.forward(batch(), sequence).unwrap();
        assert_same("loss", &found.loss, &expected.loss);
        assert_same("logits", &found.logits, &expected.logits);
        assert_eq!(ints(&found.targets), ints(&expected.targets));
        let predictions = |output: SequenceOutput| output.predictions.expect("predictions");
        assert_eq!(ints(&predictions(found)), ints(&predictions(expected)));

        let without = |model: &Linear, batch| SequenceOutput {
            predictions: None,
            ..sequence(model, batch)
        };
        assert!(
            model
                .forward(batch(), without)
                .unwrap()
                .predictions
                .is_none()
        );
    });
}

fn two() -> DataParallel<Linear> {
    DataParallel::new(linear(), DeviceIds::repeat(0, 2)).unwrap()
}

#[test]
fn sequences_of_unequal_length_are_an_error_that_names_the_shapes() {
    let batch = (tensor([5, LENGTH, 3], 1, &device()), classes([5, LENGTH]));
    let result = two().forward(
        batch,
        |model: &Linear, (x, targets): (Tensor<3>, Tensor<2, Int>)| {
            // As a model does that cuts its shard to the longest sequence of it: the replica of two rows by one token.
            let [rows, length] = targets.dims();
            let kept = if rows == 2 { length - 1 } else { length };
            sequence(model, (x.narrow(1, 0, kept), targets.narrow(1, 0, kept)))
        },
    );
    let Err(DataParallelError::GatherShapes {
        path,
        dim,
        replica,
        first,
        other,
    }) = result
    else {
        panic!("a GatherShapes error was expected");
    };
    assert_eq!((path.as_str(), dim, replica), ("logits", 0, 1));
    assert_eq!((first, other), (vec![3, 3, CLASSES], vec![2, 2, CLASSES]));
}

#[test]
fn predictions_on_some_replicas_only_are_an_error() {
    let batch = (tensor([5, LENGTH, 3], 1, &device()), classes([5, LENGTH]));
    let result = two().forward(
        batch,
        |model: &Linear, (x, targets): (Tensor<3>, Tensor<2, Int>)| {
            let mut output = sequence(model, (x, targets));
            output.predictions = output.predictions.filter(|shard| shard.dims()[0] == 3);
            output
        },
    );
    let Err(DataParallelError::GatherMismatch { path, .. }) = result else {
        panic!("a GatherMismatch error was expected");
    };
    assert_eq!(path, "predictions");
}

#[test]
fn a_loss_of_one_value_per_row_is_concatenated() {
    let per_row = |model: &Linear, (x, targets): (Tensor<2>, Tensor<2>)| {
        let mut output = regression(model, (x, targets));
        let squares = (output.output.clone() - output.targets.clone()).powf_scalar(2.0);
        output.loss = squares.mean_dim(1).squeeze_dim::<1>(1);
        output
    };
    for rows in 3..8 {
        let batch = || {
            (
                tensor([rows, 3], 1, &device()),
                tensor([rows, CLASSES], 2, &device()),
            )
        };
        let model = two();
        let expected = per_row(model.module(), batch());
        let found = model.forward(batch(), per_row).unwrap();
        assert_same("loss", &found.loss, &expected.loss);
    }
}

#[test]
fn inputs_split_along_another_dim_give_the_same_output() {
    let config = DataParallelConfig::new()
        .with_device_ids(vec![0, 0])
        .with_allow_repeated(true)
        .with_dim(1);
    let model = config.init(linear()).unwrap();
    let turned = |model: &Linear, (x, targets): (Tensor<2>, Tensor<2>)| {
        regression(model, (x.transpose(), targets.transpose()))
    };
    let batch = || {
        (
            tensor([3, 5], 1, &device()),
            tensor([CLASSES, 5], 2, &device()),
        )
    };
    let expected = turned(model.module(), batch());
    let found = model.forward(batch(), turned).unwrap();
    assert_same("loss", &found.loss, &expected.loss);
    assert_same("output", &found.output, &expected.output);
    assert_same("targets", &found.targets, &expected.targets);
}

#[test]
fn validation_gives_the_same_outputs() {
    let model = two();
    let batch = || {
        (
            tensor([5, 3], 1, &device().inner()),
            classes([5]).without_autodiff(),
        )
    };
    let valid = model.valid();
    let expected = classification(valid.module(), batch());
    let found = valid.forward(batch(), classification).unwrap();
    assert_same("loss", &found.loss, &expected.loss);
    assert_same("output", &found.output, &expected.output);
    assert!(!found.output.is_autodiff());
}
