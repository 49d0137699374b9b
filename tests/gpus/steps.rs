//! Many steps with orders of devices that change: connections between cards are made lazily, and must not deadlock.

use burn::optim::SgdConfig;
use burn_dp::Reduction;

use crate::cards::{config, loss, orders};
use crate::models::{Mlp, tensor};

#[test]
fn two_thousand_steps_do_not_hang() {
    let orders = orders();
    for reduction in [Reduction::Primary, Reduction::AllReduce] {
        for ids in &orders {
            let device = burn::tensor::Device::cuda(ids[0]).autodiff();
            let config = config().with_reduction(reduction);
            let model = config.init_on(Mlp::new(&device), ids.clone());
            let mut model = model.expect("it wraps");
            let mut optim = burn_dp::ReplicatedOptimizer::new(SgdConfig::new().init());
            for step in 0..2_000 / (2 * orders.len()) {
                // Every other batch leaves some cards out.
                let rows = if step % 2 == 0 {
                    2 * ids.len()
                } else {
                    1 + step % ids.len()
                };
                let x = tensor([rows, 3], step, &device);
                optim
                    .train_step(1e-3, &mut model, x, loss)
                    .expect("it works");
            }
            println!("{ids:?} {reduction:?}: no hang");
        }
    }
}
