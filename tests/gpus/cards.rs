//! The cards of this machine, and wrappers on them.

use std::time::Duration;

use burn::module::Module;
use burn::tensor::{Device, DeviceType, Tensor};
use burn_dp::{DataParallel, DataParallelConfig, DeviceIds};

use crate::models::Mlp;

/// Kernels may multiply in TF32, which has 10 bits of mantissa.
pub const TOLERANCE: f64 = 2e-3;

pub fn cards() -> Vec<Device> {
    Device::enumerate(DeviceType::Cuda).into_iter().collect()
}

/// Ids of all cards in several orders, where there are two or more.
pub fn orders() -> Vec<Vec<usize>> {
    let count = cards().len();
    if count < 2 {
        println!("needs two cards, there are {count}: nothing was tested");
        return Vec::new();
    }
    let forward: Vec<usize> = (0..count).collect();
    let reversed = forward.iter().rev().copied().collect();
    let mut rotated = forward.clone();
    rotated.rotate_left(count / 2);
    let mut orders = vec![forward, reversed, rotated];
    orders.dedup();
    orders
}

/// No step on these cards takes longer, tuning included, unless it hangs.
pub fn config() -> DataParallelConfig {
    DataParallelConfig::new().with_time_limit(Duration::from_secs(240))
}

pub fn wrapped<M: Module + 'static>(
    make: impl Fn(&Device) -> M,
    ids: impl Into<DeviceIds>,
) -> DataParallel<M> {
    let device = Device::cuda(0).autodiff();
    config().init_on(make(&device), ids).expect("it wraps")
}

pub fn loss(net: &Mlp, x: Tensor<2>) -> Tensor<1> {
    net.forward(x).powf_scalar(2.0).mean()
}
