//! The table of scikit-learn's digits: gzipped lines of 64 pixels, 0 to 16, and a digit.

use std::io::{self, Read};

use super::Sample;
use super::bounded::{read_at_most, unpacked};

/// Height and width of an image.
pub const SIDE: usize = 8;
/// The value of a pixel that is all ink.
const INK: u8 = 16;
/// The most bytes of text, unpacked; the table has 264,712.
pub const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum DigitsError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("more than {most} bytes of text")]
    TooLarge { most: u64 },
    #[error("{0}")]
    Table(#[from] csv::Error),
    #[error("a row of {values} values is not 64 pixels of 0 to 16 and a digit of 0 to 9")]
    Row { values: usize },
}

/// Reads a table, gzipped or not.
pub fn read(table: impl Read) -> Result<Vec<Sample>, DigitsError> {
    let text = read_at_most(unpacked(table)?, MAX_BYTES)?
        .ok_or(DigitsError::TooLarge { most: MAX_BYTES })?;
    csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_slice())
        .deserialize::<Vec<u8>>()
        .map(|row| sample(&row?))
        .collect()
}

fn sample(row: &[u8]) -> Result<Sample, DigitsError> {
    let suits = |label: u8, pixels: &[u8]| {
        label < 10 && pixels.len() == SIDE * SIDE && pixels.iter().all(|pixel| *pixel <= INK)
    };
    match row.split_last() {
        Some((&label, pixels)) if suits(label, pixels) => Ok(Sample {
            pixels: pixels
                .iter()
                .map(|&pixel| f32::from(pixel) / f32::from(INK))
                .collect(),
            label,
        }),
        _ => Err(DigitsError::Row { values: row.len() }),
    }
}
