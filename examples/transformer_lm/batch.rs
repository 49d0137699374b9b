//! Batches of sentences as numbers.

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_dp::{Rows, Scatter};

/// Fills up sentences that are shorter than the longest of their batch.
pub const PADDING: i64 = 0;

/// Stands before every sentence.
pub const BEGIN: i64 = 1;

/// The signs that sentences are made of; their tokens follow padding and begin.
const SIGNS: &[u8] = b" .abcdefghijklmnopqrstuvwxyz";

/// Number of tokens.
pub const TOKENS: usize = SIGNS.len() + 2;

/// The longest sentence that the model can read or write.
pub const LONGEST: usize = 80;

/// Tokens of a sentence. A sign that is not in the list is written as a space.
pub fn encode(sentence: &str) -> Vec<i64> {
    let token = |sign| SIGNS.iter().position(|&other| other == sign).unwrap_or(0) as i64 + 2;
    sentence.bytes().take(LONGEST).map(token).collect()
}

/// The sign of a token; none for padding and begin.
pub fn decode(token: usize) -> Option<char> {
    SIGNS
        .get(token.checked_sub(2)?)
        .map(|&sign| char::from(sign))
}

/// A batch, which the derive lets burn-dp split over replicas.
#[derive(Clone, Debug, Scatter)]
pub struct Batch {
    /// `[rows, length]`: begin, then all signs but the last.
    pub inputs: Tensor<2, Int>,
    /// `[rows, length]`: all signs.
    pub targets: Tensor<2, Int>,
    /// The sentences' own lengths, on the host: a replica weights its loss by them without waiting for its device.
    pub lengths: Rows<usize>,
}

/// A batch of encoded sentences, each as long as the longest.
pub fn batch(sentences: &[Vec<i64>], device: &Device) -> Batch {
    let lengths: Vec<usize> = sentences.iter().map(Vec::len).collect();
    let (rows, length) = (sentences.len(), lengths.iter().copied().max().unwrap_or(0));
    let mut inputs = vec![PADDING; rows * length];
    let mut targets = inputs.clone();
    for (row, sentence) in sentences.iter().enumerate() {
        let Some((_, all_but_last)) = sentence.split_last() else {
            continue;
        };
        inputs[row * length] = BEGIN;
        inputs[row * length + 1..][..all_but_last.len()].copy_from_slice(all_but_last);
        targets[row * length..][..sentence.len()].copy_from_slice(sentence);
    }
    let tensor = |values| Tensor::from_data(TensorData::new(values, [rows, length]), device);
    Batch {
        inputs: tensor(inputs),
        targets: tensor(targets),
        lengths: Rows(lengths),
    }
}
