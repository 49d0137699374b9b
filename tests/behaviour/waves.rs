//! The device of most tests, and values that need no random generator: tests run side by side.

use burn::tensor::{Device, Tensor, TensorData};

pub fn device() -> Device {
    Device::flex().autodiff()
}

/// Values that look random and are the same in every run, between -1 and 1.
pub fn wave(count: usize, seed: usize) -> Vec<f32> {
    (0..count as u64)
        .map(|i| {
            let mut x = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                ^ (seed as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
            x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x ^= x >> 29;
            (x >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

pub fn tensor<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let count = shape.iter().product();
    Tensor::from_data(TensorData::new(wave(count, seed), shape), device)
}
