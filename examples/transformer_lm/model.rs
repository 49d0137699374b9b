//! A causal transformer over letters. Nothing here knows of replicas.

use burn::module::Module;
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor};

use super::batch::{Batch, LONGEST, PADDING, TOKENS};

#[derive(Module, Debug)]
pub struct Writer {
    tokens: Embedding,
    positions: Embedding,
    layers: TransformerEncoder,
    next: Linear,
}

impl Writer {
    pub fn new(features: usize, layers: usize, device: &Device) -> Self {
        let heads = 4;
        Self {
            tokens: EmbeddingConfig::new(TOKENS, features).init(device),
            positions: EmbeddingConfig::new(LONGEST, features).init(device),
            layers: TransformerEncoderConfig::new(features, 2 * features, heads, layers)
                .with_dropout(0.0)
                .with_norm_first(true)
                .init(device),
            next: LinearConfig::new(features, TOKENS).init(device),
        }
    }

    /// The scores of each token to come next, after every token of `inputs`.
    ///
    /// # Shapes
    ///
    /// `[rows, length]` to `[rows, length, TOKENS]`
    pub fn forward(&self, inputs: Tensor<2, Int>) -> Tensor<3> {
        let ([rows, length], device) = (inputs.dims(), inputs.device());
        let positions = Tensor::arange(0..length as i64, &device).unsqueeze::<2>();
        let x = self.tokens.forward(inputs) + self.positions.forward(positions);
        // Padding follows the signs, and no position sees what follows it, so padding needs no mask of its own.
        let mask = generate_autoregressive_mask(rows, length, &device);
        let x = self
            .layers
            .forward(TransformerEncoderInput::new(x).mask_attn(mask));
        self.next.forward(x)
    }

    /// The mean loss over the signs that are not padding, and their number: what the mean counts for beside those of other
    /// shards. By rows instead, the signs of a shard of short sentences would count for more than those of another.
    pub fn loss(&self, batch: Batch) -> (Tensor<1>, f64) {
        let signs: usize = batch.lengths.0.iter().sum();
        let scores = self.forward(batch.inputs).flatten::<2>(0, 1);
        let loss = CrossEntropyLossConfig::new()
            .with_pad_tokens(Some(vec![PADDING as usize]))
            .init(&scores.device())
            .forward(scores, batch.targets.flatten::<1>(0, 1));
        (loss, signs as f64)
    }
}
