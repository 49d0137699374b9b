//! Batches that come already cut equal whole ones, and are refused where they do not fit.

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DataParallelError, DeviceIds, Sharded};

use crate::compare::{assert_close, assert_values_close, gradients, values};
use crate::equivalence::TOLERANCE;
use crate::models::{Mlp, device, tensor};

struct ThreeColumns;

impl Batcher<Vec<f32>, Tensor<2>> for ThreeColumns {
    fn batch(&self, items: Vec<Vec<f32>>, device: &Device) -> Tensor<2> {
        let rows = items.len();
        Tensor::<1>::from_floats(items.concat().as_slice(), device).reshape([rows, 3])
    }
}

fn wrapped(replicas: usize) -> DataParallel<Mlp> {
    DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps")
}

fn loss(replica: &Mlp, x: Tensor<2>) -> Tensor<1> {
    replica.forward(x).powf_scalar(2.0).mean()
}

#[test]
fn batches_of_a_loader_equal_whole_ones() {
    let items: Vec<Vec<f32>> = (0..11)
        .map(|row| values(&tensor([3], row, &device())))
        .collect();
    for replicas in [1, 2, 3, 8] {
        let model = wrapped(replicas);
        let loader = DataLoaderBuilder::new(model.sharded_batcher(ThreeColumns))
            .batch_size(4)
            .num_workers(2)
            .build(InMemDataset::new(items.clone()));
        let mut rows: Vec<usize> = Vec::new();
        for batch in loader.iter() {
            let batch = batch.expect("items in memory can be read");
            rows.push(batch.rows());
            let whole = Tensor::cat(batch.shards().to_vec(), 0);
            let step = |replica: &Mlp, shard: Sharded<Tensor<2>>| loss(replica, shard.into_shard());
            let (found, grads) = model.train_step(batch, step).expect("the step works");
            let (expected, whole) = model.train_step(whole, loss).expect("the step works");
            assert_values_close("loss", &values(&found), &values(&expected), TOLERANCE);
            let (found, expected) = (gradients(&model, &grads), gradients(&model, &whole));
            assert_close("gradients", &found, &expected, TOLERANCE);
        }
        rows.sort_unstable();
        assert_eq!(rows, [3, 4, 4], "{replicas} replicas");
    }
}

#[test]
fn shards_of_any_size_are_weighted_by_their_rows() {
    let model = wrapped(3);
    let x = tensor([10, 3], 1, &device());
    let cut = |start: usize, rows: usize| (x.clone().narrow(0, start, rows), rows);
    let batch = Sharded::new([cut(0, 7), cut(7, 1), cut(8, 2)]);
    let step = |replica: &Mlp, shard: Sharded<Tensor<2>>| loss(replica, shard.into_shard());
    let (_, grads) = model.train_step(batch, step).expect("the step works");
    let (_, whole) = model.train_step(x.clone(), loss).expect("the step works");
    let (found, expected) = (gradients(&model, &grads), gradients(&model, &whole));
    assert_close("gradients", &found, &expected, TOLERANCE);
}

#[test]
fn more_shards_than_replicas_are_an_error() {
    let model = wrapped(2);
    let shard = || (tensor([1, 3], 1, &device()), 1);
    let batch = Sharded::new([shard(), shard(), shard()]);
    let step = |replica: &Mlp, shard: Sharded<Tensor<2>>| loss(replica, shard.into_shard());
    let error = model
        .train_step(batch, step)
        .map(|_| ())
        .expect_err("they do not fit");
    let expected = matches!(
        error,
        DataParallelError::ShardCount {
            given: 3,
            expected: 2
        }
    );
    assert!(expected, "{error}");
}

#[test]
fn shards_that_do_not_fit_are_errors_that_name_them() {
    type Shards = Sharded<Tensor<2>>;
    let shard = |rows: usize| (tensor([rows.max(1), 3], rows, &device()), rows);
    let cut = |sizes: &[usize]| Sharded::new(sizes.iter().map(|&rows| shard(rows)));
    let model = wrapped(2);
    let step = |replica: &Mlp, (x, _): (Shards, Shards)| loss(replica, x.into_shard());
    let error = model
        .train_step((cut(&[3, 2]), cut(&[2, 3])), step)
        .expect_err("rows would be paired wrongly");
    match &error {
        DataParallelError::UnequalShards {
            first,
            first_sizes,
            second,
            second_sizes,
        } => {
            assert_eq!((first.as_str(), second.as_str()), ("0", "1"));
            assert_eq!(
                (&first_sizes[..], &second_sizes[..]),
                (&[3, 2][..], &[2, 3][..])
            );
        }
        other => panic!("another error: {other}"),
    }
    let error = model
        .train_step((cut(&[5]), cut(&[3, 2])), step)
        .expect_err("one has no second shard");
    assert!(
        matches!(error, DataParallelError::UnequalShards { .. }),
        "{error}"
    );
    for sizes in [&[3, 0][..], &[0, 3], &[0], &[]] {
        let error = model
            .train_step((cut(sizes), cut(sizes)), step)
            .expect_err("a shard is empty, or there is none");
        match &error {
            DataParallelError::EmptyShard { path, sizes: found } => {
                assert_eq!((path.as_str(), &found[..]), ("0", sizes));
            }
            other => panic!("another error: {other}"),
        }
    }
}
