//! Records of any tree: from wrapped to bare and back, with every byte.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DeviceIds};
use proptest::prelude::*;

use crate::compare::{bits, parameters, values};
use crate::config;
use crate::models::device;
use crate::plan::{Batch, plan};
use crate::spec::tree;
use crate::tree::Tree;

fn bytes<M: Module>(model: &M) -> Vec<u8> {
    let record = model.clone().into_record();
    record.into_bytes().expect("it serializes").to_vec()
}

fn output(model: &DataParallel<Tree>, batch: Batch) -> Vec<u32> {
    let output: Tensor<2> = model
        .forward(batch, |replica: &Tree, shard: Batch| shard.output(replica))
        .expect("forward works");
    values(&output).iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn records_keep_every_byte_from_wrapped_to_bare_to_wrapped(plan in plan(), replicas in 1usize..=8) {
        let ids = |replicas| DeviceIds::repeat(0, replicas);
        let other = || tree(&plan.layers, plan.tied, plan.seed + 1, &device());
        let batch = plan.batches(&device()).remove(0);

        let model = plan.wrap(plan.model(&device()), ids(plan.replicas));
        let (_, grads) = plan.step(&model, batch.clone());
        let (mut optim, rate) = plan.optim();
        let trained = optim.step(rate, model, grads);
        let expected = bytes(&trained);
        prop_assert!(expected == bytes(trained.module()), "the wrapper adds something");
        prop_assert_ne!(bits(&parameters(&trained)), bits(&parameters(&other())), "loading changes nothing");

        let bare = other().load_record(trained.clone().into_record());
        prop_assert!(expected == bytes(&bare), "from wrapped to bare");

        // A wrapper whose replicas are there already, with other values.
        let again = plan.wrap(other(), ids(replicas));
        let before = output(&again, batch.clone());
        let again = again.load_record(bare.into_record());
        prop_assert!(expected == bytes(&again), "from bare to wrapped");
        let after = output(&again, batch.clone());
        prop_assert_ne!(&before, &after, "replicas keep the old values");
        let same = plan.wrap(trained.into_inner(), ids(replicas));
        prop_assert_eq!(after, output(&same, batch), "outputs after loading");
    }
}
