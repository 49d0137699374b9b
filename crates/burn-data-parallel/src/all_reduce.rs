//! All-reduce: every replica gets the sum of all replicas' gradients.

use std::collections::HashSet;

use burn::tensor::distributed::{self, ReduceOperation};
use burn::tensor::{Device, Tensor};

use crate::bucket::PackedGrads;
use crate::error::Phase;
use crate::progress::Progress;
use crate::reduce::{scale, sum_onto_first};
use crate::schedule::{Transfer, broadcast_tree};
use crate::stats::Traffic;

/// How the sum gets to all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Burn's collective, which is NCCL's on CUDA: a ring in which every device sends and receives at once.
    Collective,
    /// Copies along a tree, to the first replica and back: for backends without a collective.
    Tree,
}

/// The sum of `parts`, times `factor`, on each of their devices: the same bits on all.
pub(crate) fn all_reduce(
    parts: Vec<PackedGrads>,
    factor: f64,
    devices: &[Device],
    transport: Transport,
    traffic: &Traffic,
    progress: &Progress,
) -> Vec<PackedGrads> {
    let present: HashSet<_> = parts.iter().flat_map(|part| &part.present).collect();
    let present: Vec<_> = present.into_iter().copied().collect();
    let flats = parts.into_iter().map(|part| part.flats).collect();
    let sums = match transport {
        Transport::Collective => by_collective(flats, devices, traffic, progress),
        Transport::Tree => by_tree(flats, devices, traffic, progress),
    };
    let sums = sums.into_iter().map(|mut flats| {
        scale(&mut flats, factor);
        PackedGrads {
            flats,
            present: present.clone(),
        }
    });
    sums.collect()
}

/// All buckets are given to the collective before the first is waited for, so that they follow each other without a gap; one
/// thread gives them, bucket by bucket and device by device, so that all devices have them in one order.
fn by_collective(
    flats: Vec<Vec<Tensor<1>>>,
    devices: &[Device],
    traffic: &Traffic,
    progress: &Progress,
) -> Vec<Vec<Tensor<1>>> {
    let ids: Vec<Device> = devices[..flats.len()]
        .iter()
        .map(|device| device.clone().inner())
        .collect();
    let buckets = flats.first().map_or(0, Vec::len);
    let mut waiting: Vec<Vec<_>> = ids.iter().map(|_| Vec::with_capacity(buckets)).collect();
    let mut flats: Vec<_> = flats.into_iter().map(Vec::into_iter).collect();
    for _ in 0..buckets {
        for (replica, flats) in flats.iter_mut().enumerate() {
            progress.serve(replica, Phase::Reduce);
            if let Some(flat) = flats.next() {
                // In a ring each device sends its part 2 (N - 1) / N times; one transfer here, of that many bytes.
                traffic.count(&flat, 2.0 * (ids.len() - 1) as f64 / ids.len() as f64);
                let sum = distributed::all_reduce(flat, ReduceOperation::Sum, ids.clone());
                waiting[replica].push(sum);
            }
        }
    }
    let resolve = |sums: Vec<_>| {
        sums.into_iter()
            .map(distributed::CollectiveTensor::resolve)
            .collect()
    };
    waiting.into_iter().map(resolve).collect()
}

fn by_tree(
    flats: Vec<Vec<Tensor<1>>>,
    devices: &[Device],
    traffic: &Traffic,
    progress: &Progress,
) -> Vec<Vec<Tensor<1>>> {
    let replicas = flats.len();
    let mut sums: Vec<Vec<Tensor<1>>> = vec![Vec::new(); replicas];
    if let Some(first) = sums.first_mut() {
        *first = sum_onto_first(flats, devices, traffic, progress);
    }
    for Transfer { from, into } in broadcast_tree(replicas) {
        progress.serve(into, Phase::Reduce);
        let sum = sums[from].iter();
        sums[into] = sum
            .map(|flat| traffic.to_device(flat.clone(), &devices[into]))
            .collect();
    }
    sums
}
