//! Two LSTM layers that guess the language after every character. Nothing here knows of replicas.

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig, LstmState};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor};
use burn_dp::Gather;

use super::batch::{ALPHABET, Batch, State, WINDOW};

#[derive(Module, Debug)]
pub struct Reader {
    letters: Embedding,
    layers: Vec<Lstm>,
    guess: Linear,
}

/// What is known after a window. The derive says how burn-dp puts together what replicas give.
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

    /// The mean loss over the characters that are not padding, their number, and the output.
    ///
    /// Lines end at different places, so shards of equally many rows have different numbers of characters. Weighted by rows,
    /// the characters of a shard that has few would count for more than those of another.
    pub fn loss(&self, batch: Batch) -> (Tensor<1>, f64, Output) {
        let output = self.forward(&batch);
        let rows = batch.lengths.0.len();
        let characters = batch.lengths.0.iter().sum::<usize>() as f64;
        let languages = batch.languages.reshape([rows, 1, 1]).repeat_dim(1, WINDOW);
        let right = output.guesses.clone().gather(2, languages);
        let padding = batch.characters.equal_elem(0).unsqueeze_dim::<3>(2);
        // 0/0 for a shard that is all padding; its weight is 0, so that it does not count.
        let mean = right
            .mask_fill(padding, 0.0)
            .sum()
            .neg()
            .div_scalar(characters);
        (mean, characters, output)
    }
}
