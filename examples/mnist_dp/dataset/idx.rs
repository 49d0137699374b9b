//! IDX files as MNIST and Fashion-MNIST ship them, gzipped or not (<http://yann.lecun.com/exdb/mnist/>, "file formats").

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::{Data, Sample};
use crate::problem::Problem;

/// No IDX file of this family is larger than this once unpacked; a gzip bomb is.
const MAX_BYTES: u64 = 4 << 30;

pub fn load(directory: &Path) -> Result<Data, Problem> {
    if !directory.is_dir() {
        return Err(Problem::file(
            directory,
            "there is no such directory; --data takes auto, digits, mnist, or a directory of IDX files",
        ));
    }
    let (train, train_size) = part(directory, "train")?;
    let (test, test_size) = part(directory, "t10k")?;
    if train_size != test_size {
        return Err(Problem::file(
            directory,
            format!(
                "training images are {}x{}, test images {}x{}; both must have one size",
                train_size.0, train_size.1, test_size.0, test_size.1
            ),
        ));
    }
    let classes = train
        .iter()
        .chain(&test)
        .map(|sample| usize::from(sample.label) + 1)
        .max()
        .unwrap_or(1);
    Ok(Data {
        name: format!("IDX files of {}", directory.display()),
        height: train_size.0,
        width: train_size.1,
        classes,
        train,
        test,
    })
}

/// The samples of one part, and the images' height and width.
fn part(directory: &Path, name: &str) -> Result<(Vec<Sample>, (usize, usize)), Problem> {
    let images_file = find(directory, &format!("{name}-images-idx3-ubyte"))?;
    let labels_file = find(directory, &format!("{name}-labels-idx1-ubyte"))?;
    let ([count, height, width], pixels) = read::<3>(&images_file)?;
    let ([label_count], labels) = read::<1>(&labels_file)?;
    if count != label_count {
        return Err(Problem::file(
            &labels_file,
            format!(
                "{label_count} labels, but {} holds {count} images; the files do not belong together",
                images_file.display()
            ),
        ));
    }
    if count == 0 {
        return Err(Problem::file(&images_file, "it holds no images"));
    }
    if height < 4 || width < 4 {
        return Err(Problem::file(
            &images_file,
            format!(
                "images of {height}x{width} are too small for this net; it takes 4x4 and larger"
            ),
        ));
    }
    let samples = pixels
        .chunks_exact(height * width)
        .zip(labels)
        .map(|(pixels, label)| Sample {
            pixels: pixels
                .iter()
                .map(|&pixel| f32::from(pixel) / 255.0)
                .collect(),
            label,
        })
        .collect();
    Ok((samples, (height, width)))
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

/// The sizes and the bytes of an IDX file of unsigned bytes with `N` dims.
fn read<const N: usize>(file: &Path) -> Result<([usize; N], Vec<u8>), Problem> {
    let broken = |detail: String| {
        Problem::file(
            file,
            format!("{detail}; it is damaged or no IDX file: fetch it again"),
        )
    };
    let bytes = unpack(file).map_err(|error| broken(error.to_string()))?;
    let header = 4 + 4 * N;
    if bytes.len() < header {
        return Err(broken(format!(
            "it ends after {} bytes, within the header",
            bytes.len()
        )));
    }
    if bytes[..4] != [0, 0, 8, N as u8] {
        return Err(broken(format!(
            "it begins with {:02x?}, not with the magic number of unsigned bytes in {N} dims",
            &bytes[..4]
        )));
    }
    let mut sizes = [0; N];
    for (size, word) in sizes.iter_mut().zip(bytes[4..header].chunks_exact(4)) {
        *size = word
            .iter()
            .fold(0, |value, &byte| (value << 8) | usize::from(byte));
    }
    let wanted = sizes
        .iter()
        .try_fold(1usize, |all, &size| all.checked_mul(size));
    if wanted != Some(bytes.len() - header) {
        return Err(broken(format!(
            "its header promises {sizes:?}, but {} bytes follow",
            bytes.len() - header
        )));
    }
    Ok((sizes, bytes[header..].to_vec()))
}

fn unpack(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    std::fs::File::open(file)?
        .take(MAX_BYTES)
        .read_to_end(&mut raw)?;
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    let mut bytes = Vec::new();
    MultiGzDecoder::new(raw.as_slice())
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
