//! The 1,797 digits of scikit-learn (UCI Optical Recognition of Handwritten Digits, test part): 8x8 pixels, 0 to 16.

use super::format::digits::{SIDE, read};
use super::{Data, Sample};
use crate::problem::Problem;

const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");
/// The last rows are the test set; they come from other writers than most of the rest.
const TEST: usize = 297;

pub fn load(name: &str) -> Result<Data, Problem> {
    let mut samples =
        read(FILE).map_err(|error| Problem::Data(format!("the shipped digits: {error}")))?;
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
