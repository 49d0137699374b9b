//! Dropout: masks differ between cards, and a seed repeats them.

use burn::tensor::Tensor;

use crate::cards::{orders, wrapped};
use crate::compare::values;
use crate::models::{Dropping, tensor};

#[test]
fn masks_differ_between_cards_and_a_seed_repeats_them() {
    for ids in orders() {
        let count = ids.len();
        let model = wrapped(Dropping::new, ids);
        let shard = tensor([8, 3], 1, model.primary());
        let masks = || {
            model.seed_all(7);
            let batch = Tensor::cat(vec![shard.clone(); count], 0);
            let output = model.forward(batch, |net: &Dropping, x| net.forward(x));
            let values = values(&output.expect("it works"));
            let rows = values.len() / count;
            values.chunks(rows).map(<[f32]>::to_vec).collect::<Vec<_>>()
        };
        let first = masks();
        for (index, mask) in first.iter().enumerate() {
            assert!(
                !first[..index].contains(mask),
                "card {index} has the mask of another"
            );
        }
        for _ in 0..3 {
            assert_eq!(masks(), first);
        }
    }
}
