//! Replicas stay on their cards.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_dp::PerReplica;

use crate::cards::{loss, orders, wrapped};
use crate::models::{Mlp, tensor};

#[test]
fn each_replica_and_its_shard_are_on_their_card() {
    for ids in orders() {
        let model = wrapped(Mlp::new, ids.clone());
        let rows = ids.len() + 1;
        let step = |net: &Mlp, x: Tensor<2>| {
            let here = x.device();
            assert_eq!(net.devices(), vec![here.clone()]);
            (loss(net, x), PerReplica(vec![here]))
        };
        let x = tensor([rows, 3], 1, model.primary());
        let ((_, seen), _) = model.train_step(x, step).expect("it works");
        assert_eq!(seen.0, model.replica_devices());
    }
}
