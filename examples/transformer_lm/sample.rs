//! Writing: one sign after the other, each drawn by the chances that the model gives it.

use burn::tensor::activation::softmax;
use burn::tensor::{Tensor, TensorData};
use burn_dp::DataParallel;

use crate::batch::{BEGIN, LONGEST, TOKENS, decode};
use crate::model::Writer;
use crate::numbers::Numbers;
use crate::problem::Problem;

/// `count` sentences, written side by side: they too are a batch that the replicas share.
pub fn sentences(
    model: &DataParallel<Writer>,
    count: usize,
    numbers: &mut Numbers,
) -> Result<Vec<String>, Problem> {
    let mut texts = vec![String::new(); count];
    let mut tokens = vec![vec![BEGIN]; count];
    while tokens[0].len() < LONGEST && !texts.iter().all(|text| text.ends_with('.')) {
        let length = tokens[0].len();
        let data = TensorData::new(tokens.concat(), [count, length]);
        let inputs = Tensor::from_data(data, model.primary());
        let scores = model.forward(inputs, move |writer: &Writer, inputs| {
            // Only what follows the last sign is needed, so only that is gathered.
            writer
                .forward(inputs)
                .narrow(1, length - 1, 1)
                .squeeze_dim::<2>(1)
        })?;
        let chances: Vec<f32> = softmax(scores, 1).try_into_data()?.iter::<f32>().collect();
        for ((text, tokens), chances) in texts
            .iter_mut()
            .zip(&mut tokens)
            .zip(chances.chunks(TOKENS))
        {
            let token = draw(chances, numbers.unit());
            tokens.push(token as i64);
            if !text.ends_with('.') {
                text.extend(decode(token));
            }
        }
    }
    Ok(texts)
}

/// The token into whose part of the whole `at` falls.
fn draw(chances: &[f32], mut at: f32) -> usize {
    for (token, chance) in chances.iter().enumerate() {
        at -= chance;
        if at < 0.0 {
            return token;
        }
    }
    // Rounding can leave a little over.
    chances.len() - 1
}
