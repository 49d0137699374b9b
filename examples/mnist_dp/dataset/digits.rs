//! The 1,797 digits of scikit-learn (UCI Optical Recognition of Handwritten Digits, test part): 8x8 pixels, 0 to 16.

use flate2::read::GzDecoder;

use super::{Data, Sample};
use crate::problem::Problem;

const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");
const SIDE: usize = 8;
/// The last rows are the test set; they come from other writers than most of the rest.
const TEST: usize = 297;

pub fn load(name: &str) -> Result<Data, Problem> {
    let mut samples = Vec::new();
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(GzDecoder::new(FILE));
    for row in rows.deserialize::<Vec<u8>>() {
        let row = row.map_err(|error| Problem::Data(format!("the shipped digits: {error}")))?;
        match row.split_last() {
            Some((&label, pixels)) if pixels.len() == SIDE * SIDE && label < 10 => {
                samples.push(Sample {
                    pixels: pixels
                        .iter()
                        .map(|&pixel| f32::from(pixel) / 16.0)
                        .collect(),
                    label,
                })
            }
            _ => {
                return Err(Problem::Data(format!(
                    "the shipped digits: a row of {} values is not 64 pixels and a digit",
                    row.len()
                )));
            }
        }
    }
    let test = samples.split_off(samples.len().saturating_sub(TEST));
    let train = samples.iter().flat_map(shifted).collect();
    Ok(Data {
        name: name.into(),
        height: SIDE,
        width: SIDE,
        classes: 10,
        train,
        test,
    })
}

/// The image itself and moved by one pixel each way: other writers do not centre their digits alike.
fn shifted(sample: &Sample) -> impl Iterator<Item = Sample> {
    const SHIFTS: [(isize, isize); 5] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)];
    SHIFTS.into_iter().map(|(down, right)| {
        let pixel = |row: isize, column: isize| {
            let inside = |at: isize| usize::try_from(at).ok().filter(|&at| at < SIDE);
            match (inside(row - down), inside(column - right)) {
                (Some(row), Some(column)) => sample.pixels[row * SIDE + column],
                _ => 0.0,
            }
        };
        let side = SIDE as isize;
        Sample {
            pixels: (0..side * side)
                .map(|at| pixel(at / side, at % side))
                .collect(),
            label: sample.label,
        }
    })
}
