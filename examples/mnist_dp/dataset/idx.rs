//! A directory of IDX files as MNIST and Fashion-MNIST ship them, gzipped or not.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::Data;
use super::format::idx::{MAX_BYTES, Part, PartError, part};
use crate::problem::Problem;

pub fn load(directory: &Path) -> Result<Data, Problem> {
    if !directory.is_dir() {
        return Err(Problem::file(
            directory,
            "there is no such directory; --data takes auto, digits, mnist, or a directory of IDX files",
        ));
    }
    let train = read(directory, "train")?;
    let test = read(directory, "t10k")?;
    if (train.height, train.width) != (test.height, test.width) {
        return Err(Problem::file(
            directory,
            format!(
                "training images are {}x{}, test images {}x{}; both must have one size",
                train.height, train.width, test.height, test.width
            ),
        ));
    }
    let samples = train.samples.iter().chain(&test.samples);
    let classes = samples
        .map(|sample| usize::from(sample.label) + 1)
        .max()
        .unwrap_or(1);
    Ok(Data {
        name: format!("IDX files of {}", directory.display()),
        height: train.height,
        width: train.width,
        classes,
        train: train.samples,
        test: test.samples,
    })
}

/// The images and labels of one part.
fn read(directory: &Path, name: &str) -> Result<Part, Problem> {
    let images = find(directory, &format!("{name}-images-idx3-ubyte"))?;
    let labels = find(directory, &format!("{name}-labels-idx1-ubyte"))?;
    part(open(&images)?, open(&labels)?, MAX_BYTES).map_err(|error| match error {
        PartError::Images(error) => Problem::file(&images, error),
        PartError::Labels(error) => Problem::file(&labels, error),
    })
}

fn open(file: &Path) -> Result<BufReader<File>, Problem> {
    File::open(file)
        .map(BufReader::new)
        .map_err(|error| Problem::file(file, error))
}

fn find(directory: &Path, name: &str) -> Result<PathBuf, Problem> {
    ["", ".gz"]
        .iter()
        .map(|ending| directory.join(format!("{name}{ending}")))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Problem::file(
                directory,
                format!("it holds neither {name} nor {name}.gz; put the four IDX files there"),
            )
        })
}
