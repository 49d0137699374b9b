//! BatchNorm: the primary's shard updates the primary's statistics, which stay on its card.

use burn::module::Module;

use crate::cards::{TOLERANCE, orders, wrapped};
use crate::compare::{assert_values_close, values};
use crate::models::{Normed, tensor};

#[test]
fn running_statistics_follow_the_primarys_shard() {
    for ids in orders() {
        let count = ids.len();
        let model = wrapped(Normed::new, ids.clone());
        let bare = wrapped(Normed::new, ids[..1].to_vec());
        let primary = model.primary().clone();
        for seed in 0..4 {
            let x = tensor([2 * count, 3], seed, &primary);
            let step = |net: &Normed, x| net.forward(x).powf_scalar(2.0).mean();
            model.train_step(x.clone(), step).expect("it works");
            bare.train_step(x.slice([0..2]), step).expect("it works");
        }
        let valid = model.valid();
        let (mean, var) = valid.module().statistics();
        let (expected_mean, expected_var) = bare.valid().module().statistics();
        assert_values_close("mean", &mean, &expected_mean, TOLERANCE);
        assert_values_close("variance", &var, &expected_var, TOLERANCE);
        assert_eq!(valid.devices(), vec![primary.clone().inner()]);
        let x = tensor([2 * count + 1, 3], 9, &primary.inner());
        let output = valid.forward(x.clone(), |net: &Normed, x| net.forward(x));
        let expected = valid.module().forward(x);
        assert_values_close(
            "validation",
            &values(&output.expect("it works")),
            &values(&expected),
            TOLERANCE,
        );
    }
}
