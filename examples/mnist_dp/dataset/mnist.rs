//! MNIST through burn-dataset's download.

use std::panic::catch_unwind;

use burn_dataset::Dataset;
use burn_dataset::vision::{MnistDataset, MnistItem};

use super::{Data, Sample};
use crate::problem::Problem;

pub fn load() -> Result<Data, Problem> {
    let (train, test) = quietly(|| {
        let read = |part: MnistDataset| {
            let items: Result<Vec<Sample>, _> = part.iter().map(|item| item.map(sample)).collect();
            items.ok()
        };
        Some((read(MnistDataset::train())?, read(MnistDataset::test())?))
    })
    .flatten()
    .ok_or_else(|| {
        Problem::Data(
            "MNIST could not be downloaded; check the network, or give a directory that holds its IDX files: --data DIR".into(),
        )
    })?;
    Ok(Data {
        name: "MNIST, by burn-dataset".into(),
        height: 28,
        width: 28,
        classes: 10,
        train,
        test,
    })
}

fn sample(item: MnistItem) -> Sample {
    Sample {
        pixels: item
            .image
            .iter()
            .flatten()
            .map(|pixel| pixel / 255.0)
            .collect(),
        label: item.label,
    }
}

/// burn-dataset panics where it has no network; the panic's report would hide our own message.
fn quietly<T>(work: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(work);
    std::panic::set_hook(hook);
    result.ok()
}
