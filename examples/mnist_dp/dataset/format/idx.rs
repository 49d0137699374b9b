//! IDX, the format of MNIST and Fashion-MNIST (<http://yann.lecun.com/exdb/mnist/>, "file formats").

use std::io::{self, Read};

use super::Sample;
use super::bounded::{read_at_most, unpacked};

/// The most bytes of pixels or labels in a file, unpacked. EMNIST ByClass, the largest of this family, has 547 million.
pub const MAX_BYTES: u64 = 1 << 30;
/// The sides of an image that the net takes.
const SIDES: std::ops::RangeInclusive<usize> = 4..=512;

/// One part of a data set: its images' size, and the images with their labels.
#[derive(Debug, PartialEq)]
pub struct Part {
    pub height: usize,
    pub width: usize,
    pub samples: Vec<Sample>,
}

/// Which of a part's two files cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    #[error("{0}")]
    Images(IdxError),
    #[error("{0}")]
    Labels(IdxError),
}

#[derive(Debug, thiserror::Error)]
pub enum IdxError {
    #[error("{0}; it is damaged or no IDX file: fetch it again")]
    Unreadable(#[from] io::Error),
    #[error(
        "it ends after {found} bytes, within the header; it is damaged or no IDX file: fetch it again"
    )]
    NoHeader { found: usize },
    #[error(
        "it begins with {found:02x?}, not with the magic number of unsigned bytes in {dims} dims; it is damaged or no \
         IDX file: fetch it again"
    )]
    Magic { found: [u8; 4], dims: usize },
    #[error(
        "its header promises {sizes:?}, but {found} bytes follow; it is damaged or no IDX file: fetch it again"
    )]
    Truncated { sizes: Vec<usize>, found: usize },
    #[error(
        "its header promises {sizes:?}, but more bytes follow; it is damaged or no IDX file: fetch it again"
    )]
    TooLong { sizes: Vec<usize> },
    #[error("its header promises {sizes:?}, more than the {most} bytes that this example takes")]
    TooLarge { sizes: Vec<usize>, most: u64 },
    #[error("{labels} labels, but there are {images} images; the files do not belong together")]
    Unequal { labels: usize, images: usize },
    #[error("it holds no images")]
    Empty,
    #[error("images of {height}x{width} do not suit this net; it takes 4x4 to 512x512")]
    Size { height: usize, width: usize },
}

/// Reads images and their labels, each gzipped or not.
///
/// # Errors
///
/// [`PartError`]. Memory grows with the bytes that are there, up to `most` of a file (see [`MAX_BYTES`]), not with what
/// a header promises.
pub fn part(images: impl Read, labels: impl Read, most: u64) -> Result<Part, PartError> {
    let images = Idx::<3>::open(images, most).map_err(PartError::Images)?;
    let labels = Idx::<1>::open(labels, most).map_err(PartError::Labels)?;
    let ([count, height, width], [label_count]) = (images.sizes, labels.sizes);
    if count != label_count {
        return Err(PartError::Labels(IdxError::Unequal {
            labels: label_count,
            images: count,
        }));
    }
    if count == 0 {
        return Err(PartError::Images(IdxError::Empty));
    }
    if !SIDES.contains(&height) || !SIDES.contains(&width) {
        return Err(PartError::Images(IdxError::Size { height, width }));
    }
    let pixels = images.bytes().map_err(PartError::Images)?;
    let labels = labels.bytes().map_err(PartError::Labels)?;
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
    Ok(Part {
        height,
        width,
        samples,
    })
}

/// A file of unsigned bytes with `N` dims whose header has been read.
struct Idx<'a, const N: usize> {
    sizes: [usize; N],
    length: u64,
    rest: Box<dyn Read + 'a>,
}

impl<'a, const N: usize> Idx<'a, N> {
    fn open(input: impl Read + 'a, most: u64) -> Result<Self, IdxError> {
        let mut rest = unpacked(input)?;
        let mut header = Vec::new();
        rest.by_ref()
            .take(4 + 4 * N as u64)
            .read_to_end(&mut header)?;
        let words: Vec<[u8; 4]> = header.as_chunks().0.to_vec();
        let Some((found, words)) = words.split_first().filter(|(_, words)| words.len() == N) else {
            return Err(IdxError::NoHeader {
                found: header.len(),
            });
        };
        if *found != [0, 0, 8, N as u8] {
            return Err(IdxError::Magic {
                found: *found,
                dims: N,
            });
        }
        let sizes: [usize; N] = std::array::from_fn(|dim| u32::from_be_bytes(words[dim]) as usize);
        let length = sizes
            .iter()
            .try_fold(1u64, |all, &size| all.checked_mul(size as u64))
            .filter(|&length| length <= most)
            .ok_or_else(|| IdxError::TooLarge {
                sizes: sizes.to_vec(),
                most,
            })?;
        Ok(Self {
            sizes,
            length,
            rest,
        })
    }

    /// The bytes behind the header, which are as many as it promises.
    fn bytes(self) -> Result<Vec<u8>, IdxError> {
        let sizes = self.sizes.to_vec();
        match read_at_most(self.rest, self.length)? {
            None => Err(IdxError::TooLong { sizes }),
            Some(bytes) if (bytes.len() as u64) < self.length => Err(IdxError::Truncated {
                sizes,
                found: bytes.len(),
            }),
            Some(bytes) => Ok(bytes),
        }
    }
}
