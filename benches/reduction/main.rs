//! What bringing gradients together costs, against a plain copy of as many bytes:
//! `cargo bench --bench reduction` on the CPU, `--features cuda` on the first card.
//!
//! `MEGABYTES` (default 8, or 400 on a card) sets the gradients of one replica, `REPLICAS` (default 2,8) how many share the device.

use std::hint::black_box;
use std::time::{Duration, Instant};

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DeviceIds};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};

/// 200 parameters, as a deep net has.
const PARAMETERS: usize = 200;

#[derive(Module, Debug)]
struct Weights {
    weights: Vec<Param<Tensor<2>>>,
}

impl Weights {
    fn new(elements: usize, device: &Device) -> Self {
        let columns = elements.div_ceil(PARAMETERS * 64);
        let weight = || Param::from_tensor(Tensor::ones([64, columns], device));
        Self {
            weights: (0..PARAMETERS).map(|_| weight()).collect(),
        }
    }

    fn bytes(&self) -> u64 {
        4 * self.num_params() as u64
    }

    /// A gradient of ones for each parameter, which no forward or backward has to make.
    fn grads(&self) -> GradientsParams {
        let mut grads = GradientsParams::new();
        for weight in &self.weights {
            grads.register(weight.id, weight.val().inner().ones_like());
        }
        grads
    }
}

fn device() -> Device {
    #[cfg(feature = "cuda")]
    return Device::cuda(0);
    #[cfg(not(feature = "cuda"))]
    Device::flex()
}

fn number_list(name: &str, default: &str) -> Vec<usize> {
    let text = std::env::var(name).unwrap_or_else(|_| default.into());
    text.split(',')
        .map(|part| {
            part.trim()
                .parse()
                .unwrap_or_else(|_| panic!("{name}: {part:?} is no number"))
        })
        .collect()
}

/// Time `run`, with the device's queue empty before and after. What it returns is held until it has been handed to the device:
/// fused operations whose results nobody holds are never run.
fn timed<T>(device: &Device, iterations: u64, mut run: impl FnMut() -> T) -> Duration {
    device.sync().expect("the device works");
    let started = Instant::now();
    for _ in 0..iterations {
        let result = run();
        device.flush().expect("the device works");
        drop(black_box(result));
    }
    device.sync().expect("the device works");
    started.elapsed()
}

/// A kernel that reads and writes each value once: what memory allows.
fn copy(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, elements: usize) {
    let source = Tensor::<1>::ones([elements], device);
    group.throughput(Throughput::Bytes(2 * 4 * elements as u64));
    group.bench_function("copy", |bench| {
        bench
            .iter_custom(|iterations| timed(device, iterations, || source.clone().add_scalar(1.0)));
    });
}

/// Many tensors into one flat buffer, as gradients are packed before they move; and that added to another, as on arrival.
fn pack(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device, weights: &Weights) {
    let parts: Vec<Tensor<1>> = weights
        .weights
        .iter()
        .map(|weight| weight.val().inner().flatten(0, 1))
        .collect();
    let flat = Tensor::cat(parts.clone(), 0);
    // As many tensors as fill a bucket of 25 MiB.
    let members = (25 * 1024 * 1024 * PARAMETERS / weights.bytes() as usize).max(1);
    group.throughput(Throughput::Bytes(2 * weights.bytes()));
    group.bench_function("pack", |bench| {
        bench.iter_custom(|iterations| timed(device, iterations, || Tensor::cat(parts.clone(), 0)));
    });
    group.bench_function("pack, one by one", |bench| {
        bench.iter_custom(|iterations| timed(device, iterations, || assigned(&parts)));
    });
    group.bench_function("pack, in buckets", |bench| {
        bench.iter_custom(|iterations| {
            timed(device, iterations, || {
                let buckets = parts.chunks(members);
                buckets
                    .map(|bucket| Tensor::cat(bucket.to_vec(), 0))
                    .collect::<Vec<_>>()
            })
        });
    });
    group.bench_function("pack, in buckets, one by one", |bench| {
        bench.iter_custom(|iterations| {
            timed(device, iterations, || {
                parts.chunks(members).map(assigned).collect::<Vec<_>>()
            })
        });
    });
    group.throughput(Throughput::Bytes(5 * weights.bytes()));
    group.bench_function("pack and add", |bench| {
        bench.iter_custom(|iterations| {
            timed(device, iterations, || {
                flat.clone() + Tensor::cat(parts.clone(), 0)
            })
        });
    });
}

/// `parts` side by side, each written by itself: Burn does not fuse these writes.
fn assigned(parts: &[Tensor<1>]) -> Tensor<1> {
    let elements: usize = parts.iter().map(|part| part.dims()[0]).sum();
    let empty = Tensor::empty([elements], &parts[0].device());
    let write = |(flat, at): (Tensor<1>, usize), part: &Tensor<1>| {
        let end = at + part.dims()[0];
        (flat.slice_assign([at..end], part.clone()), end)
    };
    parts.iter().fold((empty, 0), write).0
}

/// The wrapper's own reduction on one device: each replica's gradients read once, and their sum written.
fn sum(
    group: &mut BenchmarkGroup<'_, WallTime>,
    device: &Device,
    weights: &Weights,
    replicas: usize,
) {
    let model =
        DataParallel::new(weights.clone(), DeviceIds::repeat(0, replicas)).expect("it wraps");
    let batch = Tensor::<2>::ones([replicas, 1], device);
    let all = (1 + replicas) as u64 * weights.bytes();
    group.throughput(Throughput::Bytes(all));
    group.bench_function(BenchmarkId::new("sum", replicas), |bench| {
        bench.iter_custom(|iterations| {
            let mut reduced = Duration::ZERO;
            for _ in 0..iterations {
                // The gradients exist before the clock starts.
                let grads: Vec<_> = (0..replicas)
                    .map(|_| std::sync::Mutex::new(Some(weights.grads())))
                    .collect();
                device.sync().expect("the device works");
                let row = std::sync::atomic::AtomicUsize::new(0);
                let step = move |_: &Weights, _: Tensor<2>| {
                    let next = row.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let grads = grads[next].lock().expect("nobody panics with it").take();
                    (grads.unwrap_or_default(), ())
                };
                let started = Instant::now();
                let (_, sum) = model
                    .train_step_with_grads(batch.clone(), step)
                    .expect("it works");
                device.sync().expect("the device works");
                reduced += started.elapsed();
                black_box(sum);
            }
            reduced
        });
    });
}

fn main() {
    let device = device();
    let default = if cfg!(feature = "cuda") { "400" } else { "8" };
    for megabytes in number_list("MEGABYTES", default) {
        let mut criterion = Criterion::default().configure_from_args();
        let mut group = criterion.benchmark_group(format!("{megabytes} MB"));
        group.sample_size(10);
        let weights = Weights::new(megabytes * 250_000, &device.clone().autodiff());
        copy(&mut group, &device, weights.num_params());
        pack(&mut group, &device, &weights);
        for replicas in number_list("REPLICAS", "2,8") {
            sum(&mut group, &device, &weights, replicas);
        }
        group.finish();
    }
}
