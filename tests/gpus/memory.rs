//! Cards that are not in the list are not touched, and memory does not grow.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use burn_dp::visible::{DeviceKind, VisibleDevices};
use burn_dp::{ReplicatedOptimizer, Sharded};

use crate::cards::{cards, loss, wrapped};
use crate::models::{Mlp, tensor};

/// To be run in a process of its own: other tests open all cards.
#[test]
fn a_card_that_is_not_listed_holds_no_memory_of_this_process() {
    let visible = VisibleDevices::from_env(DeviceKind::Cuda);
    let Some(last) = visible
        .devices()
        .last()
        .filter(|_| visible.device_count() > 1)
    else {
        println!("needs two cards: nothing was tested");
        return;
    };
    // What this process uses is not known in a container whose process numbers the driver does not know.
    let used = || {
        let memory = visible.memory(last.ordinal).expect("the card is listed");
        (memory.total - memory.free) >> 20
    };
    let before = used();
    let ids: Vec<usize> = (0..visible.device_count() - 1).collect();
    let model = wrapped(Mlp::new, ids);
    model
        .train_step(tensor([8, 3], 1, model.primary()), loss)
        .expect("it works");
    println!(
        "memory of the unlisted card: {before} MiB before, {} after",
        used()
    );
    // A context alone takes some hundred MiB.
    assert!(used() < before + 50);
}

#[test]
fn memory_is_flat_over_many_steps() {
    let all: Vec<usize> = (0..cards().len()).collect();
    let mut model = wrapped(Mlp::new, all);
    let mut optim = AdamConfig::new().init();
    let x = tensor([16, 3], 1, model.primary());
    let mut settled = None;
    for step in 0..2_000 {
        let (_, grads) = model.train_step(x.clone(), loss).expect("it works");
        model = optim.step(1e-3, model, grads);
        if step == 500 || step == 1_999 {
            let devices = model.replica_devices().iter();
            let held: Vec<u64> = devices
                .filter_map(|device| device.memory_pool_usage())
                .map(|usage| usage.bytes_reserved)
                .collect();
            println!("step {step}: {held:?} bytes held");
            let first = settled.get_or_insert_with(|| held.clone());
            assert_eq!(held, *first, "memory grows");
        }
    }
}

#[derive(Module, Debug)]
struct Wide {
    layers: Vec<Linear>,
}

impl Wide {
    fn loss(&self, x: Tensor<2>) -> Tensor<1> {
        let layers = self.layers.iter();
        layers.fold(x, |x, layer| layer.forward(x).tanh()).mean()
    }
}

/// Outputs and graphs stay on the replicas' cards, so the first is not full while the others are nearly empty.
#[test]
fn the_primary_holds_little_more_than_the_others() {
    let count = cards().len();
    if count < 2 {
        println!("needs two cards, there are {count}: nothing was tested");
        return;
    }
    const WIDTH: usize = 1024;
    let make = |device: &Device| {
        let layer = || LinearConfig::new(WIDTH, WIDTH).init(device);
        Wide {
            layers: (0..4).map(|_| layer()).collect(),
        }
    };
    let mut model = wrapped(make, (0..count).collect::<Vec<_>>());
    let mut optim = ReplicatedOptimizer::new(AdamConfig::new().init());
    // Shards are made on their cards, so that the whole batch lies nowhere.
    for _ in 0..3 {
        let devices = model.replica_devices().iter();
        let shards = devices.map(|device| (Tensor::<2>::ones([16_384, WIDTH], device), 16_384));
        let batch = Sharded::new(shards);
        let step = |net: &Wide, shard: Sharded<Tensor<2>>| net.loss(shard.into_shard());
        optim
            .train_step(1e-3, &mut model, batch, step)
            .expect("it works");
    }
    let devices = model.replica_devices().iter();
    let held: Vec<u64> = devices
        .filter_map(|device| device.memory_pool_usage())
        .map(|usage| usage.bytes_reserved)
        .collect();
    println!("bytes held: {held:?}");
    let most = held[1..].iter().max().expect("there is another card");
    assert!(10 * held[0] <= 13 * most, "{held:?}");
}
