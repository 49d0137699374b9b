//! Two LSTM layers that guess the language after every character. Nothing here knows of replicas but the weight of the loss.

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig, LstmState};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor};
use burn_dp::{Gather, Loss};

use super::batch::{ALPHABET, Batch, State, WINDOW};

#[derive(Module, Debug)]
pub struct Reader {
    letters: Embedding,
    layers: Vec<Lstm>,
    guess: Linear,
}

/// What a replica gives beside its loss.
#[derive(Gather)]
pub struct Output {
    /// The state after the window, for the next one.
    #[gather(dim = 1)]
    pub state: State,
    /// `[rows, WINDOW, classes]`: the logarithms of the chances that each language has after each character.
    pub guesses: Tensor<3>,
}

impl Reader {
    pub fn new(features: usize, layers: usize, classes: usize, device: &Device) -> Self {
        let lstm = |input| LstmConfig::new(input, features, true).init(device);
        Self {
            letters: EmbeddingConfig::new(ALPHABET, features).init(device),
            layers: (0..layers).map(|_| lstm(features)).collect(),
            guess: LinearConfig::new(features, classes).init(device),
        }
    }

    /// The state in which `rows` lines begin.
    pub fn start(&self, rows: usize, device: &Device) -> State {
        let features = self.layers.first().map_or(0, |layer| layer.d_hidden);
        State::zeros(self.layers.len(), rows, features, device)
    }

    pub fn forward(&self, batch: &Batch) -> Output {
        let mut x = self.letters.forward(batch.characters.clone());
        let (mut cells, mut hiddens) = (Vec::new(), Vec::new());
        for (index, layer) in self.layers.iter().enumerate() {
            let at = |all: &Tensor<3>| all.clone().narrow(0, index, 1).squeeze_dim::<2>(0);
            let before = LstmState::new(at(&batch.state.cell), at(&batch.state.hidden));
            let (read, after) = layer.forward(x, Some(before));
            x = read;
            cells.push(after.cell);
            hiddens.push(after.hidden);
        }
        Output {
            // The next window starts from these values, not from the graph that made them: backward goes one window deep.
            state: State {
                cell: Tensor::stack::<3>(cells, 0).detach(),
                hidden: Tensor::stack::<3>(hiddens, 0).detach(),
            },
            guesses: log_softmax(self.guess.forward(x), 2),
        }
    }

    /// The mean loss over the characters that are not padding, and the output.
    ///
    /// Lines end at different places, so replicas with equally many rows have different numbers of characters. A mean by rows
    /// would weight the characters of short lines more, as many as one device would not.
    pub fn loss(&self, batch: Batch) -> (Loss, Output) {
        let output = self.forward(&batch);
        let rows = batch.lengths.0.len();
        let characters: usize = batch.lengths.0.iter().sum();
        let languages = batch.languages.reshape([rows, 1, 1]);
        let right = output
            .guesses
            .clone()
            .gather(2, languages.repeat_dim(1, WINDOW));
        let padding = batch.characters.equal_elem(0).unsqueeze_dim::<3>(2);
        let sum = right.mask_fill(padding, 0.0).sum().neg();
        // Of a shard that is all padding this is 0/0, and does not count: its weight is 0.
        let mean = sum.div_scalar(characters as f64);
        (Loss::mean_over(mean, characters as f64), output)
    }
}
