//! A wrapped tree trains as the bare one, and twice alike.

use proptest::prelude::*;

use crate::compare::difference;
use crate::config;
use crate::models::device;
use crate::plan::{Entrance, Optim, Plan, Weight, plan};
use crate::spec::TiedPlaces;
use crate::training::TOLERANCE;

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn a_wrapped_tree_equals_the_bare_one(plan in plan()) {
        plan.repeated().assert_close_to(&plan.bare());
    }
}

proptest! {
    #![proptest_config(config(500))]

    /// The same with more than two places of a tied parameter, some frozen and others not.
    #[test]
    fn a_wrapped_tree_with_many_tied_places_equals_the_bare_one(plan in plan()) {
        let plan = Plan { tied: TiedPlaces::Any, ..plan };
        plan.repeated().assert_close_to(&plan.bare());
    }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn a_run_repeats_bit_for_bit(plan in plan()) {
        plan.repeated().assert_same_bits(&plan.repeated());
    }
}

/// A mean of means differs by more than the tolerance here: else the properties could not fail.
#[test]
fn a_mean_of_means_would_be_found() {
    let plan = |replicas, weight| Plan {
        layers: Vec::new(),
        tied: TiedPlaces::Two,
        rows: vec![5],
        replicas,
        bucket_bytes: 1,
        weight,
        entrance: Entrance::TrainStep,
        optim: Optim::Sgd,
        seed: 1,
    };
    let whole = plan(1, Weight::Rows).bare();
    let means: Vec<f32> = {
        // Shards of 3 and 2 rows, each a training of its own.
        let model = plan(1, Weight::Rows).model(&device());
        let batch = plan(1, Weight::Rows).batches(&device()).remove(0);
        [0..3, 3..5]
            .map(|rows| {
                let (output, target) = (batch.output(&model), batch.target.clone());
                let difference = (output - target).slice([rows]).powf_scalar(2.0);
                let weighted = difference * batch.column_weights.clone().unsqueeze();
                weighted.mean().into_scalar()
            })
            .to_vec()
    };
    let mean = (means[0] + means[1]) / 2.0;
    assert!(difference(&[mean], &whole.losses) > 100.0 * TOLERANCE);
    plan(2, Weight::Rows).repeated().assert_close_to(&whole);
}
