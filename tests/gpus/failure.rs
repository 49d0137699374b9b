//! A replica that fails on a card is named, and the next step works.

use burn::tensor::Tensor;
use burn_dp::{DataParallelError, DeviceIds};

use crate::cards::{loss, orders, wrapped};
use crate::compare::{bits, parameters};
use crate::models::{Mlp, tensor};

#[test]
fn a_panic_names_its_card_and_leaves_the_model() {
    for ids in orders() {
        for failing in 0..ids.len() {
            let model = wrapped(Mlp::new, DeviceIds::from(ids.clone()));
            let place = model.replica_devices()[failing].clone();
            let rows = 2 * ids.len();
            let x = || tensor([rows, 3], 1, model.primary());
            let before = bits(&parameters(&model));
            let fails = move |net: &Mlp, x: Tensor<2>| {
                assert!(x.device() != place, "fails on purpose");
                loss(net, x)
            };
            match model.train_step(x(), fails).expect_err("it fails") {
                DataParallelError::Replica { replica, cause, .. } => {
                    assert_eq!(replica, failing);
                    assert!(cause.contains("on purpose"), "{cause}");
                }
                other => panic!("another error: {other}"),
            }
            assert_eq!(bits(&parameters(&model)), before);
            model.train_step(x(), loss).expect("the next step works");
        }
    }
}
