//! Batches: windows of text, and the state with which the model reads them.

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_dp::{Gather, Rows, Scatter};

/// Characters that are read between two optimizer steps.
pub const WINDOW: usize = 12;

/// Padding, a space, and 26 letters.
pub const ALPHABET: usize = 28;

/// What the LSTM has in mind: `[layers, rows, features]` each, as PyTorch and Burn's BiLstm have it. Rows are dim 1 here, which
/// the field that holds a state says.
#[derive(Clone, Debug, Scatter, Gather)]
pub struct State {
    pub cell: Tensor<3>,
    pub hidden: Tensor<3>,
}

impl State {
    pub fn zeros(layers: usize, rows: usize, features: usize, device: &Device) -> Self {
        let zeros = Tensor::zeros([layers, rows, features], device);
        Self {
            cell: zeros.clone(),
            hidden: zeros,
        }
    }
}

/// The same window of every line of a batch.
#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    /// `[rows, WINDOW]`, padded with 0 behind the end of a line.
    pub characters: Tensor<2, Int>,
    /// `[rows]`
    pub languages: Tensor<1, Int>,
    /// How many characters of each line are in this window. A replica needs their number as a plain number to weight its
    /// loss; on the host it has it without waiting for its device.
    pub lengths: Rows<usize>,
    #[scatter(dim = 1)]
    pub state: State,
}

/// A line as the model reads it.
#[derive(Clone, Debug)]
pub struct Sample {
    pub characters: Vec<i64>,
    pub language: usize,
}

impl Sample {
    pub fn new(text: &str, language: usize) -> Self {
        let code = |letter: u8| match letter {
            b'a'..=b'z' => i64::from(letter - b'a') + 2,
            _ => 1,
        };
        Self {
            characters: text.bytes().map(code).collect(),
            language,
        }
    }
}

/// How many windows the longest of `samples` has.
pub fn windows(samples: &[Sample]) -> usize {
    let longest = samples.iter().map(|sample| sample.characters.len()).max();
    longest.unwrap_or(0).div_ceil(WINDOW)
}

/// Window `index` of `samples`, to be read in `state`.
pub fn window(samples: &[Sample], index: usize, state: State, device: &Device) -> Batch {
    let rows = samples.len();
    let mut characters = vec![0; rows * WINDOW];
    let mut lengths = vec![0; rows];
    for (row, sample) in samples.iter().enumerate() {
        let part = sample.characters.chunks(WINDOW).nth(index).unwrap_or(&[]);
        characters[row * WINDOW..][..part.len()].copy_from_slice(part);
        lengths[row] = part.len();
    }
    let languages: Vec<i64> = samples
        .iter()
        .map(|sample| sample.language as i64)
        .collect();
    Batch {
        characters: Tensor::from_data(TensorData::new(characters, [rows, WINDOW]), device),
        languages: Tensor::from_data(TensorData::new(languages, [rows]), device),
        lengths: Rows(lengths),
        state,
    }
}
