//! Micro-batches keep their gradients where they are, and are reduced once.

use burn::optim::GradientsParams;
use burn_dp::DeviceIds;

use super::*;

#[test]
fn one_reduction_for_a_group() {
    let _alone = alone();
    within(120, || {
        let devices = devices();
        let model = wrapped(&devices);
        let sizes = [4, 1, 5];
        let mut group = model.accumulate();
        for (seed, rows) in sizes.into_iter().enumerate() {
            let x = batch(rows, seed, &devices[0]);
            group.train_step(x, loss).expect("it works");
            assert_eq!(model.step_stats().reduce.transfers, 0);
        }
        let grads = group.finish().expect("it works");
        // One bucket of each other device, for the whole group.
        assert_eq!(model.total_stats().reduce.transfers, 2);
        assert_gradients_on(&model, &grads);

        let bare = model.module();
        let rows = sizes.into_iter().enumerate();
        let rows = rows
            .map(|(seed, rows)| batch(rows, seed, &devices[0]))
            .collect();
        let expected = loss(bare, Tensor::cat(rows, 0)).backward();
        let expected = GradientsParams::from_grads(expected, bare);
        let expected = gradients(bare, &expected);
        assert_close(
            "gradients",
            &gradients(&model, &grads),
            &expected,
            TOLERANCE,
        );
    });
}

#[test]
fn a_primary_that_shares_its_device_with_a_replica() {
    let _alone = alone();
    within(120, || {
        let devices = devices();
        let ids = [&devices[0], &devices[0], &devices[1]].map(Clone::clone);
        let config = DataParallelConfig::new().with_allow_repeated(true);
        let model = config.init_on(Net::new(&devices[0]), DeviceIds::devices(ids));
        let model = model.expect("it wraps");
        let mut group = model.accumulate();
        let sizes = [2, 3, 1];
        for (seed, rows) in sizes.into_iter().enumerate() {
            // Two rows stay on the first device, where nothing is packed.
            let x = batch(rows, seed, &devices[0]);
            group.train_step(x, loss).expect("it works");
        }
        let grads = group.finish().expect("it works");
        let bare = model.module();
        let rows = sizes.into_iter().enumerate();
        let rows = rows
            .map(|(seed, rows)| batch(rows, seed, &devices[0]))
            .collect();
        let expected =
            GradientsParams::from_grads(loss(bare, Tensor::cat(rows, 0)).backward(), bare);
        let expected = gradients(bare, &expected);
        assert_close(
            "gradients",
            &gradients(&model, &grads),
            &expected,
            TOLERANCE,
        );
    });
}
