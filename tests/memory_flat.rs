//! Memory stays flat over 10,000 steps: nothing of a step outlives it, on any thread.
//!
//! A test of its own, since the resident size is that of the whole process.

use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Distribution, Tensor};
use burn_dp::{DataParallel, DeviceIds};

/// Resident bytes of this process.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm.split_whitespace().nth(1).expect("its second field");
    pages.parse::<usize>().expect("a number of pages") * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_steps_leave_memory_as_it_was() {
    let device = Device::flex().autodiff();
    device.seed(1);
    // 4 MiB with gradients and Adam's state: a leak of one step's tensors would show within some dozen steps.
    let layers: Vec<Linear> = (0..4)
        .map(|_| LinearConfig::new(64, 64).init(&device))
        .collect();
    let mut model = DataParallel::new(layers, DeviceIds::repeat(0, 3)).expect("it wraps");
    let mut optim = AdamConfig::new().init();
    let x = Tensor::<2>::random([6, 64], Distribution::Default, &device);
    let mut run = |steps: usize| {
        for _ in 0..steps {
            let step = |layers: &Vec<Linear>, x| {
                let output = layers.iter().fold(x, |x, layer| layer.forward(x));
                output.powf_scalar(2.0).mean()
            };
            let taken = model.clone();
            let (_, grads) = taken.train_step(x.clone(), step).expect("the step works");
            model = optim.step(1e-4, taken, grads);
        }
    };
    run(1_000);
    let before = resident();
    run(10_000);
    let grown = resident().saturating_sub(before);
    println!("grown by {} KiB over 10,000 steps", grown / 1024);
    // One step has about 200 KiB of gradients and replicas; 10,000 of them would be 2 GiB.
    assert!(grown < 16 << 20, "grown by {grown} bytes");
}
