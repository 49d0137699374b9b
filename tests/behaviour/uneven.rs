//! Uneven and tiny batches, other dims, and the errors for batches and outputs that do not fit.

use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};
use burn_dp::{
    DataParallel, DataParallelConfig, DataParallelError, DeviceIds, Gather, Mean, PerReplica, Rows,
    Scatter, Sum, balanced_sizes,
};

use crate::compare::{assert_close, assert_values_close, gradients, parameters, values};
use crate::models::{Mlp, device, ints, tensor};

fn wrapped(replicas: usize) -> DataParallel<Mlp> {
    DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

/// Rows of each shard, as the replicas see them.
fn shard_rows(rows: usize, replicas: usize) -> Vec<usize> {
    wrapped(replicas)
        .forward(
            tensor([rows, 3], 1, &device()),
            |_: &Mlp, shard: Tensor<2>| PerReplica(vec![shard.dims()[0]]),
        )
        .expect("forward works")
        .0
}

#[test]
fn shards_are_balanced_and_never_empty() {
    assert_eq!(balanced_sizes(9, 8), [2, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(shard_rows(9, 8), [2, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(shard_rows(10, 4), [3, 3, 2, 2]);
    assert_eq!(
        shard_rows(2, 3),
        [1, 1],
        "fewer rows than replicas use fewer replicas"
    );
    assert_eq!(shard_rows(1, 4), [1]);
    assert_eq!(
        shard_rows(0, 4),
        [0],
        "a batch without rows runs on the primary alone"
    );
}

#[test]
fn shards_are_consecutive_rows_in_order() {
    let x = Tensor::<1, Int>::arange(0..11, &device());
    let parts = wrapped(4)
        .forward(x, |_: &Mlp, shard: Tensor<1, Int>| {
            PerReplica(vec![shard.to_data().iter::<i64>().collect::<Vec<_>>()])
        })
        .expect("forward works")
        .0;
    assert_eq!(
        parts,
        [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9, 10]]
    );
}

#[test]
fn a_batch_without_rows_gives_what_one_device_gives() {
    let model = wrapped(3);
    let x = tensor([0, 3], 1, &device());
    let output = model.forward(x.clone(), |replica: &Mlp, x| replica.forward(x));
    let bare = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        model.module().forward(x).dims()
    }));
    match (output, bare) {
        (Ok(output), Ok(dims)) => assert_eq!(output.dims(), dims),
        // A backend that cannot compute on no rows must still end in a typed error.
        (Err(DataParallelError::Replica { replica, .. }), Err(_)) => assert_eq!(replica, 0),
        (output, bare) => panic!("wrapped and bare disagree: {output:?}, {bare:?}"),
    }
}

/// A batch of nothing to split runs once, on the primary, with nothing weighted.
#[test]
fn a_unit_batch_runs_once_on_the_primary() {
    let model = wrapped(3);
    let x = tensor([4, 3], 1, &device());
    let shared = x.clone();
    let (loss, grads) = model
        .train_step((), move |replica: &Mlp, ()| {
            replica.forward(shared.clone()).powf_scalar(2.0).mean()
        })
        .expect("the step works");
    let bare = model.module().forward(x).powf_scalar(2.0).mean();
    let expected = GradientsParams::from_grads(bare.clone().backward(), model.module());
    assert_values_close("loss", &values(&loss), &values(&bare), 0.0);
    assert_close(
        "gradients",
        &gradients(&model, &grads),
        &gradients(&model, &expected),
        0.0,
    );
    let calls = model
        .forward((), |_: &Mlp, ()| PerReplica(vec!["called"]))
        .expect("forward works");
    assert_eq!(calls.0, ["called"]);
}

#[test]
fn plain_values_alone_run_once_and_keep_their_value() {
    let output = wrapped(3)
        .forward((7usize, true), |_: &Mlp, (count, flag)| (count, flag))
        .expect("forward works");
    assert_eq!(output, (7, true));
}

#[test]
fn another_dim_is_split_and_gathered() {
    for (dim, shape) in [(1, [3, 7, 2]), (2, [3, 2, 7])] {
        let model = DataParallelConfig::new()
            .with_dim(dim)
            .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 3))
            .expect("it wraps");
        let x = tensor(shape, 1, &device());
        let (doubled, sizes) = model
            .forward(x.clone(), move |_: &Mlp, x: Tensor<3>| {
                let rows = x.dims()[dim];
                (x.mul_scalar(2.0), PerReplica(vec![rows]))
            })
            .expect("forward works");
        assert_eq!(sizes.0, [3, 2, 2]);
        assert_eq!(doubled.dims(), shape);
        assert_values_close(
            "doubled",
            &values(&doubled),
            &values(&x.mul_scalar(2.0)),
            0.0,
        );
    }
}

/// Sequence first: the loss per shard is weighted by the rows of dim 1, not of dim 0.
#[test]
fn the_loss_is_weighted_by_the_rows_of_the_dim_that_is_split() {
    let model = DataParallelConfig::new()
        .with_dim(1)
        .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 3))
        .expect("it wraps");
    let x = tensor([2, 7, 3], 5, &device());
    let run = |model: &Mlp, x: Tensor<3>| {
        let [steps, rows, features] = x.dims();
        model
            .forward(x.reshape([steps * rows, features]))
            .powf_scalar(2.0)
            .mean()
    };
    let (loss, grads) = model.train_step(x.clone(), run).expect("the step works");
    let bare = run(model.module(), x);
    let expected = GradientsParams::from_grads(bare.clone().backward(), model.module());
    assert_values_close("loss", &values(&loss), &values(&bare), 1e-6);
    assert_close(
        "gradients",
        &gradients(&model, &grads),
        &gradients(&model, &expected),
        1e-6,
    );
}

#[test]
fn unequal_rows_are_an_error_that_names_both_and_runs_nothing() {
    let model = wrapped(2);
    let before = parameters(&model);
    let batch = (
        tensor([6, 3], 1, &device()),
        vec![tensor([6, 1], 2, &device()), tensor([5, 1], 3, &device())],
    );
    let error = model
        .forward(batch, |_: &Mlp, _| -> Tensor<1> {
            panic!("the closure must not run")
        })
        .expect_err("6 is not 5");
    match &error {
        DataParallelError::UnequalRows {
            first,
            first_rows,
            second,
            second_rows,
            ..
        } => {
            assert_eq!((first.as_str(), *first_rows), ("0", 6));
            assert_eq!((second.as_str(), *second_rows), ("1.1", 5));
        }
        other => panic!("another error: {other}"),
    }
    let text = error.to_string();
    for part in ["`0` has 6 rows", "`1.1` has 5", "along dim 0", "shared"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(before, parameters(&model));
}

#[test]
fn rows_count_as_rows_too() {
    let error = wrapped(2)
        .forward(
            (tensor([4, 3], 1, &device()), Rows(vec![1, 2, 3])),
            |_: &Mlp, _| 0usize,
        )
        .expect_err("4 is not 3");
    assert!(
        matches!(error, DataParallelError::UnequalRows { .. }),
        "{error}"
    );
}

#[test]
fn unequal_rows_are_an_error_on_one_device_too() {
    // Else a program that runs on one device fails on two.
    let batch = (tensor([4, 3], 1, &device()), tensor([3, 3], 1, &device()));
    let error = wrapped(1)
        .forward(batch, |_: &Mlp, _| 0usize)
        .expect_err("4 is not 3");
    assert!(
        matches!(error, DataParallelError::UnequalRows { .. }),
        "{error}"
    );
}

#[test]
fn a_tensor_without_the_dim_is_an_error_that_names_it() {
    let model = DataParallelConfig::new()
        .with_dim(1)
        .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 2))
        .expect("it wraps");
    let error = model
        .forward(
            (tensor([2, 4], 1, &device()), ints([4], 3, &device())),
            |_: &Mlp, _| 0usize,
        )
        .expect_err("rank 1 has no dim 1");
    match &error {
        DataParallelError::NoScatterDim { path, shape, dim } => {
            assert_eq!(
                (path.as_str(), shape.as_slice(), *dim),
                ("1", [4].as_slice(), 1)
            );
        }
        other => panic!("another error: {other}"),
    }
}

#[test]
fn outputs_of_unequal_width_are_an_error_that_names_dim_replica_and_shapes() {
    let error = wrapped(3)
        .forward(tensor([5, 3], 1, &device()), |_: &Mlp, x: Tensor<2>| {
            // Shards of 2, 2 and 1 rows: the width follows the rows.
            let rows = x.dims()[0];
            (x.clone(), x.slice([0..rows, 0..rows]))
        })
        .expect_err("widths 2 and 1");
    match &error {
        DataParallelError::GatherShapes {
            path,
            dim,
            replica,
            first,
            other,
        } => {
            assert_eq!((path.as_str(), *dim, *replica), ("1", 0, 2));
            assert_eq!(
                (first.as_slice(), other.as_slice()),
                ([2, 2].as_slice(), [1, 1].as_slice())
            );
        }
        other => panic!("another error: {other}"),
    }
    assert!(
        error.to_string().contains("[2, 2]") && error.to_string().contains("[1, 1]"),
        "{error}"
    );
}

#[derive(Gather)]
struct AlongOne {
    #[gather(dim = 1)]
    wide: Tensor<2>,
}

#[test]
fn outputs_of_unequal_width_gather_along_another_dim() {
    let output = wrapped(3)
        .forward(tensor([5, 3], 1, &device()), |_: &Mlp, x: Tensor<2>| {
            AlongOne {
                wide: x.transpose(),
            }
        })
        .expect("forward works");
    assert_eq!(output.wide.dims(), [3, 5]);
    let expected = values(&tensor([5, 3], 1, &device()).transpose());
    assert_values_close("columns", &values(&output.wide), &expected, 0.0);
}

#[test]
fn a_single_value_per_shard_is_an_error_that_says_what_to_do() {
    let loss = |replica: &Mlp, x: Tensor<2>| replica.forward(x).mean();
    for replicas in [1, 2, 3] {
        let error = wrapped(replicas)
            .forward(tensor([5, 3], 1, &device()), loss)
            .expect_err("a loss is not one value per row");
        assert!(
            matches!(error, DataParallelError::ScalarOutput { .. }),
            "{replicas}: {error}"
        );
        for part in ["Mean(", "Sum(", "PerReplica("] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn one_value_per_row_is_gathered_even_if_shards_have_one_row() {
    for rows in 1..=4 {
        let output = wrapped(4)
            .forward(
                tensor([rows, 3], 1, &device()),
                |_: &Mlp, x: Tensor<2>| -> Tensor<1> { x.sum_dim(1).squeeze_dim(1) },
            )
            .expect("forward works");
        assert_eq!(output.dims(), [rows]);
    }
}

/// The mean of means of 2,2,1 rows is another number.
#[test]
fn mean_and_sum_on_uneven_shards_are_those_of_the_whole_batch() {
    let device = device();
    for rows in [1, 5, 9] {
        let x = tensor([rows, 3], 1, &device);
        for replicas in [1, 2, 3, 4, 8] {
            let (Mean(mean), Sum(sum), Mean(number), Sum(count)) = wrapped(replicas)
                .forward(x.clone(), |_: &Mlp, x: Tensor<2>| {
                    let mean = x.clone().mean();
                    let number = mean.clone().into_scalar::<f32>();
                    let count = x.dims()[0];
                    (Mean(mean), Sum(x.sum()), Mean(number), Sum(count))
                })
                .expect("forward works");
            let what = format!("{rows} rows on {replicas}");
            assert_values_close(&what, &values(&mean), &values(&x.clone().mean()), 1e-6);
            assert_values_close(&what, &values(&sum), &values(&x.clone().sum()), 1e-6);
            assert_values_close(&what, &[number], &values(&x.clone().mean()), 1e-6);
            assert_eq!(count, rows, "{what}");
        }
    }
}

/// A mean that stays in the graph has the gradients of the whole batch's mean.
#[test]
fn backward_through_a_gathered_mean_equals_one_device() {
    let device = device();
    let model = wrapped(3);
    let x = tensor([5, 3], 1, &device);
    let Mean(loss) = model
        .forward(x.clone(), |replica: &Mlp, x| {
            Mean(replica.forward(x).powf_scalar(2.0).mean())
        })
        .expect("forward works");
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    let bare = model.module().forward(x).powf_scalar(2.0).mean();
    let expected = GradientsParams::from_grads(bare.backward(), model.module());
    assert_close(
        "gradients",
        &gradients(&model, &grads),
        &gradients(&model, &expected),
        1e-6,
    );
}

#[test]
fn plain_outputs_that_differ_are_an_error() {
    let error = wrapped(3)
        .forward(tensor([5, 3], 1, &device()), |_: &Mlp, x: Tensor<2>| {
            x.dims()[0]
        })
        .expect_err("2, 2 and 1");
    assert!(
        matches!(error, DataParallelError::GatherMismatch { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("replica 2"), "{error}");
    let same = wrapped(3)
        .forward(tensor([6, 3], 1, &device()), |_: &Mlp, x: Tensor<2>| {
            x.dims()[0]
        })
        .expect("2 on every replica");
    assert_eq!(same, 2);
}

#[derive(Scatter)]
struct WithShared {
    rows: Tensor<2>,
    #[scatter(shared)]
    whole: Tensor<1>,
}

/// A shared tensor of as many elements as there are rows is not split.
/// Replicas would otherwise run through one graph at the same time, which Burn's autodiff does not bear.
#[test]
fn a_shared_or_sharded_tensor_is_cut_from_its_graph_in_a_train_step() {
    #[derive(Scatter, Clone)]
    struct Batch {
        x: Tensor<2>,
        #[scatter(shared)]
        scale: Tensor<1>,
    }
    let model = wrapped(2);
    let leaf = Tensor::<1>::from_floats([2.0, 2.0], &device()).require_grad();
    for _ in 0..20 {
        let upstream = leaf.clone().mul_scalar(2.0).exp();
        let batch = Batch {
            x: tensor([4, 3], 1, &device()),
            scale: upstream.clone(),
        };
        let step = |replica: &Mlp, batch: Batch| {
            let scale = batch.scale.unsqueeze::<2>();
            (replica.forward(batch.x) * scale).mean()
        };
        let (_, grads) = model.train_step(batch, step).expect("it works");
        assert_eq!(grads.len(), 4);
        let shard = || {
            (
                upstream
                    .clone()
                    .unsqueeze::<2>()
                    .matmul(tensor([2, 3], 2, &device())),
                1,
            )
        };
        let batch = burn_dp::Sharded::new([shard(), shard()]);
        let step = |replica: &Mlp, shard: burn_dp::Sharded<Tensor<2>>| {
            replica.forward(shard.into_shard()).mean()
        };
        model.train_step(batch, step).expect("it works");
    }
}

#[test]
fn a_shared_tensor_is_whole_on_every_replica() {
    let batch = WithShared {
        rows: tensor([4, 3], 1, &device()),
        whole: tensor([4], 2, &device()),
    };
    let expected = values(&batch.whole);
    let parts = wrapped(2)
        .forward(batch, |_: &Mlp, shard: WithShared| {
            PerReplica(vec![(shard.rows.dims()[0], values(&shard.whole))])
        })
        .expect("forward works");
    assert_eq!(parts.0, [(2, expected.clone()), (2, expected)]);
}
