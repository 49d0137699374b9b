//! Self-check: whether copies between devices arrive as they were sent.
//!
//! On some hosts copies between two cards return zeros or stale bytes without any error (peer access that the chipset or the
//! IOMMU does not carry), and training goes on with wrong numbers. So each ordered pair of devices is tried once a process.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::DataParallelError;
use crate::inspect::describe;
use crate::routes::{Routes, copying};
use crate::workers::caught;

/// What to do where the self-check finds that copies between two devices go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnBadCopy {
    /// A `SelfCheck` error when the wrapper is made.
    #[default]
    Error,
    /// Copies between these two devices go through the host, with a warning in the log. `train_step` and validation work;
    /// `forward` in training mode is a `StagedGraph` error, because autodiff cannot follow such a copy. Tensors of a module that are
    /// no parameters, and the state of a [`ReplicatedOptimizer`](crate::ReplicatedOptimizer), are moved by Burn itself: straight.
    HostStaged,
}

/// Ordered pairs that are good, as messages name the devices. What failed is tried again: a device may have been out of memory.
static GOOD: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());

/// Try the copies between all ordered pairs of `devices`, with the pair at hand in `trying`.
///
/// # Errors
///
/// `SelfCheck` for the first pair that fails, unless `on_bad_copy` sends its copies through the host and that works.
pub(crate) fn check(
    devices: &[Device],
    routes: &mut Routes,
    on_bad_copy: OnBadCopy,
    trying: &Mutex<Option<(String, String)>>,
) -> Result<(), DataParallelError> {
    let mut distinct: Vec<Device> = Vec::new();
    for device in devices {
        let device = device.clone().inner();
        if !distinct.contains(&device) {
            distinct.push(device);
        }
    }
    for from in &distinct {
        for into in distinct.iter().filter(|into| *into != from) {
            *trying.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((describe(from), describe(into)));
            let Some(problem) = known(from, into, routes) else {
                continue;
            };
            if on_bad_copy == OnBadCopy::HostStaged {
                routes.stage(from, into);
                if round_trip(from, into, routes).is_ok() {
                    log::warn!(
                        "copies from {} to {} go wrong ({problem}); they go through the host from now on, which is slower",
                        describe(from),
                        describe(into),
                    );
                    continue;
                }
            }
            return Err(DataParallelError::SelfCheck {
                from: describe(from),
                into: describe(into),
                problem,
            });
        }
    }
    Ok(())
}

/// What is wrong with copies from `from` to `into`; those that were good once in this process are not tried again.
fn known(from: &Device, into: &Device, routes: &Routes) -> Option<String> {
    let pair = (describe(from), describe(into));
    let good = || GOOD.lock().unwrap_or_else(PoisonError::into_inner);
    if !routes.has_faults() && good().contains(&pair) {
        return None;
    }
    let problem = round_trip(from, into, routes).err();
    if !routes.has_faults() && problem.is_none() {
        good().insert(pair);
    }
    problem
}

/// Shapes of the tensors that are sent: one element, an odd number, a matrix that is sent transposed (so that its rows are not
/// contiguous), and a mebibyte or more.
const SHAPES: [[usize; 2]; 4] = [[1, 1], [1, 1021], [37, 53], [512, 512]];

/// Send tensors of known values, and compare what has arrived.
fn round_trip(from: &Device, into: &Device, routes: &Routes) -> Result<(), String> {
    let _copying = copying();
    caught(|| {
        let arrived: Vec<Tensor<1, Int>> = SHAPES
            .iter()
            .map(|&[rows, columns]| {
                let sent = Tensor::<2, Int>::from_data(values(rows, columns), from).transpose();
                routes.send(sent, into).flatten(0, 1)
            })
            .collect();
        let expected: Vec<i64> = SHAPES
            .iter()
            .flat_map(|&[rows, columns]| {
                (0..columns)
                    .flat_map(move |column| (0..rows).map(move |row| value(row * columns + column)))
            })
            .collect();
        // One read for all: on a remote device each costs a round trip.
        let arrived = Tensor::cat(arrived, 0).into_data();
        let wrong = arrived
            .iter::<i64>()
            .zip(&expected)
            .filter(|(arrived, expected)| arrived != *expected)
            .count();
        (wrong, expected.len())
    })
    .and_then(|(wrong, all)| match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} of {all} values arrived changed")),
    })
}

fn values(rows: usize, columns: usize) -> TensorData {
    let values: Vec<i64> = (0..rows * columns).map(value).collect();
    TensorData::new(values, [rows, columns])
}

/// Never 0, so that zeros are always wrong, and small enough for any int type of 16 bits and more.
fn value(index: usize) -> i64 {
    1 + (index as i64 * 7919) % 32749
}
