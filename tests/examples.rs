//! The models of the examples, and models built as Burn's own examples build theirs: wrapped, one training step gives what
//! the bare model gives.

#[allow(dead_code)] // shared with the behaviour tests
#[path = "behaviour/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "behaviour/models.rs"]
mod models;

#[allow(dead_code)] // the examples' own programs use the rest
#[path = "../examples"]
mod examples {
    pub mod mnist_dp {
        pub mod model;
        pub mod weights;
    }
    pub mod text_rnn {
        pub mod batch;
        pub mod model;
    }
    pub mod transformer_lm {
        pub mod batch;
        pub mod model;
    }
    pub mod remote_cluster {
        pub mod model;
    }
}

use burn::module::{Module, ModuleMapper, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, Gelu,
    LayerNorm, LayerNormConfig, LeakyRelu, LeakyReluConfig, Linear, LinearConfig, LstmState,
    PaddingConfig2d, PositionalEncoding, PositionalEncodingConfig, Relu, Tanh,
};
use burn::optim::{AdamConfig, GradientsParams, RmsPropConfig};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData, s};
use burn_dp::{DataParallel, DeviceIds, Loss, PhaseStats, Scatter, StepResult, balanced_sizes};

use compare::{assert_close, assert_values_close, gradients, parameters, values};
use proptest::prelude::*;
use proptest::sample::Index;

use examples::{mnist_dp, remote_cluster, text_rnn, transformer_lm};
use models::{device, filled, ints, tensor};

const TOLERANCE: f64 = 1e-5;
const RATE: f64 = 0.01;

/// Lists of one to four devices: one device as often as that and, where there is a server for them, distinct devices.
fn places() -> Vec<(usize, DeviceIds)> {
    let mut places: Vec<_> = (1..=4)
        .map(|replicas| (replicas, DeviceIds::repeat(0, replicas)))
        .collect();
    #[cfg(feature = "remote-server")]
    places.extend(distinct::places());
    places
}

fn wrap<M: Module>(model: &M, ids: &DeviceIds) -> DataParallel<M> {
    DataParallel::new(model.clone(), ids.clone()).expect("it wraps")
}

#[cfg(feature = "remote-server")]
mod distinct {
    use std::net::TcpListener;

    use burn::remote::RemoteHost;
    use burn::server::{RemoteServer, WebSocketTransport};
    use burn::tensor::Device;
    use burn_dp::DeviceIds;
    use tokio::runtime::Builder;

    thread_local! {
        // A server for each test, so that none waits for another; it serves until the process ends.
        static DEVICES: Vec<Device> = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let url = format!("ws://{}", listener.local_addr().expect("it is bound"));
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let server = RemoteServer::new([(); 4].map(|()| Device::flex()));
            let serving = server.serve_async(WebSocketTransport::from_listener(listener));
            Box::leak(Box::new(runtime.expect("a runtime"))).spawn(serving);
            let devices = RemoteHost::websocket(&url).devices().expect("it answers");
            devices.into_iter().collect()
        };
    }

    pub fn places() -> Vec<(usize, DeviceIds)> {
        DEVICES.with(|devices| {
            [1, 2, 4]
                .map(|replicas| (replicas, DeviceIds::devices(devices[..replicas].to_vec())))
                .to_vec()
        })
    }
}

fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let loss = CrossEntropyLossConfig::new().init(&logits.device());
    loss.forward(logits, targets)
}

/// Loss, gradients, and parameters after a step of Adam, on all places: those of the bare model on the whole batch.
fn assert_steps_as_bare<M, B, S>(
    places: Vec<(usize, DeviceIds)>,
    model: M,
    batch: B,
    bare: impl Fn(&M, B) -> Tensor<1>,
    wrapped: impl Fn(&M, B) -> S + Copy + Send + Sync + 'static,
) where
    M: Module + 'static,
    B: Scatter + Clone + Send + 'static,
    S: StepResult<Gathered = Tensor<1>>,
{
    let expected = bare(&model, batch.clone());
    let grads = GradientsParams::from_grads(expected.backward(), &model);
    let expected_grads = gradients(&model, &grads);
    let stepped = AdamConfig::new().init().step(RATE, model.clone(), grads);
    for (_, ids) in places {
        let what = format!("{ids:?}");
        let wrapper = wrap(&model, &ids);
        let (loss, grads) = wrapper
            .train_step(batch.clone(), wrapped)
            .expect("it steps");
        assert_values_close(&what, &values(&loss), &values(&expected), TOLERANCE);
        assert_close(
            &what,
            &gradients(&wrapper, &grads),
            &expected_grads,
            TOLERANCE,
        );
        let wrapper = AdamConfig::new().init().step(RATE, wrapper, grads);
        // Adam divides by a gradient's own size, so rounding shows more in the parameters than in the gradients.
        assert_close(&what, &parameters(&wrapper), &parameters(&stepped), 1e-3);
    }
}

mod our_examples {
    use super::*;

    #[test]
    fn mnist_dp() {
        let model = filled(mnist_dp::model::Net::new(8, 8, 10, &device()));
        let images = tensor([9, 8, 8], 1, &device());
        assert_eq!(model.forward(images.clone()).dims(), [9, 10]);
        let step = |model: &mnist_dp::model::Net,
                    (images, targets): (Tensor<3>, Tensor<1, Int>)| {
            cross_entropy(model.forward(images), targets)
        };
        assert_steps_as_bare(
            places(),
            model,
            (images, ints([9], 10, &device())),
            step,
            step,
        );
    }

    /// One change of a file: bytes that are others, that are gone, or that are there twice.
    fn change() -> impl Strategy<Value = (Index, Index, Change)> {
        let change = prop_oneof![
            4 => any::<u8>().prop_map(Change::Set),
            1 => Just(Change::Cut),
            1 => Just(Change::Remove),
            1 => Just(Change::Repeat),
        ];
        (any::<Index>(), any::<Index>(), change)
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Set(u8),
        Cut,
        Remove,
        Repeat,
    }

    fn changed(mut bytes: Vec<u8>, changes: &[(Index, Index, Change)], head: usize) -> Vec<u8> {
        for (at, end, change) in changes {
            let reach = bytes.len().min(head);
            if reach == 0 {
                break;
            }
            let at = at.index(reach);
            let end = at + end.index(reach - at);
            match change {
                Change::Set(value) => bytes[at] = *value,
                Change::Cut => bytes.truncate(at),
                Change::Remove => drop(bytes.drain(at..end)),
                Change::Repeat => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        bytes
    }

    proptest! {
        /// A file that `mnist_dp --load` is given is loaded or refused, and a model that it was loaded into works.
        #[test]
        fn damaged_weights_are_loaded_or_refused(
            changes in proptest::collection::vec(change(), 1..6),
            // Most of a file is values, so some cases change its first part alone, where its structure is.
            whole in any::<bool>(),
        ) {
            let model = mnist_dp::model::Net::new(4, 4, 3, &device());
            let good = mnist_dp::weights::to_bytes(model.clone()).expect("it has weights");
            let head = if whole { good.len() } else { 1500 };
            let bytes = changed(good, &changes, head);
            let model = DataParallel::new(model, DeviceIds::repeat(0, 2)).expect("it wraps");
            match mnist_dp::weights::from_bytes(model, bytes) {
                Ok(model) => {
                    let step = |net: &mnist_dp::model::Net, x| net.forward(x);
                    let output = model.forward(tensor([3, 4, 4], 1, &device()), step);
                    prop_assert_eq!(output.expect("it works").dims(), [3, 3]);
                }
                Err(error) => prop_assert!(!error.is_empty()),
            }
        }
    }

    /// Values of another type, as many bytes each: what is loaded works, what is refused says why.
    #[test]
    fn weights_of_another_type_are_loaded_or_refused() {
        let net = mnist_dp::model::Net::new(4, 4, 3, &device());
        let good = mnist_dp::weights::to_bytes(net.clone()).expect("it has weights");
        let places: Vec<_> = (0..good.len() - 3)
            .filter(|&at| &good[at..at + 3] == b"F32")
            .collect();
        assert!(!places.is_empty(), "the file names no type");
        for name in ["I32", "U32", "F16", "F64", "I64", "U64", "I16", "U16"] {
            for &at in &places {
                let mut bytes = good.clone();
                bytes[at..at + 3].copy_from_slice(name.as_bytes());
                let model =
                    DataParallel::new(net.clone(), DeviceIds::repeat(0, 2)).expect("it wraps");
                match mnist_dp::weights::from_bytes(model, bytes) {
                    Ok(model) => {
                        let step = |net: &mnist_dp::model::Net, x| net.forward(x);
                        let output = model.forward(tensor([3, 4, 4], 1, &device()), step);
                        assert_eq!(output.expect("it works").dims(), [3, 3], "{name}");
                    }
                    Err(error) => assert!(error.len() > 20, "{name}: {error}"),
                }
            }
        }
    }

    use text_rnn::batch::{Sample, WINDOW, window, windows};
    use text_rnn::model::Reader;

    /// Five lines; the second window has characters of two of them, the third of one.
    fn lines() -> Vec<Sample> {
        let texts = [
            "a line that goes on for long",
            "short",
            "the middle one",
            "no",
            "x",
        ];
        let numbered = texts.iter().enumerate();
        numbered
            .map(|(index, text)| Sample::new(text, index % 3))
            .collect()
    }

    #[test]
    fn text_rnn_carries_its_state_from_window_to_window() {
        let model = filled(Reader::new(6, 2, 3, &device()));
        let samples = lines();
        assert_eq!(windows(&samples), 3);
        for (replicas, ids) in places() {
            let wrapper = wrap(&model, &ids);
            let mut expected_state = model.start(5, &device());
            let mut state = expected_state.clone();
            for index in 0..3 {
                let what = format!("{replicas} replicas, window {index}");
                let (expected, _, output) =
                    model.loss(window(&samples, index, expected_state, &device()));
                assert_eq!(output.guesses.dims(), [5, WINDOW, 3]);
                let grads = GradientsParams::from_grads(expected.backward(), &model);

                let batch = window(&samples, index, state, &device());
                let ((loss, found), found_grads) = wrapper
                    .train_step(batch, |reader: &Reader, shard| {
                        assert_eq!(shard.state.hidden.dims()[1], shard.characters.dims()[0]);
                        let (mean, characters, output) = reader.loss(shard);
                        (Loss::mean_over(mean, characters), output)
                    })
                    .expect("it steps");
                assert_values_close(&what, &values(&loss), &values(&expected), TOLERANCE);
                assert_close(
                    &what,
                    &gradients(&wrapper, &found_grads),
                    &gradients(&model, &grads),
                    TOLERANCE,
                );
                assert_eq!(found.state.hidden.dims(), [2, 5, 6]);
                for (found, expected) in [
                    (&found.state.hidden, &output.state.hidden),
                    (&found.state.cell, &output.state.cell),
                ] {
                    assert_values_close(&what, &values(found), &values(expected), TOLERANCE);
                }
                (state, expected_state) = (found.state, output.state);
            }
        }
    }

    #[test]
    fn text_rnn_validates_as_bare() {
        let model = filled(Reader::new(6, 2, 3, &device())).valid();
        let batch = window(
            &lines(),
            0,
            model.start(5, &device().inner()),
            &device().inner(),
        );
        let expected = model.forward(&batch);
        for (replicas, ids) in places() {
            let found = wrap(&model, &ids)
                .forward(batch.clone(), |reader: &Reader, shard| {
                    reader.forward(&shard)
                })
                .expect("it runs");
            assert_values_close(
                &format!("{replicas} replicas"),
                &values(&found.guesses),
                &values(&expected.guesses),
                TOLERANCE,
            );
        }
    }

    #[test]
    fn transformer_lm() {
        use transformer_lm::batch::{TOKENS, batch, decode, encode};
        use transformer_lm::model::Writer;

        let sentence = "an old boat.";
        let tokens = encode(sentence).into_iter();
        assert_eq!(
            tokens
                .filter_map(|token| decode(token as usize))
                .collect::<String>(),
            sentence
        );

        let model = filled(Writer::new(8, 2, &device()));
        let sentences = [
            "a bird.",
            "two birds see the tower.",
            "no.",
            "the river.",
            "so many stones.",
        ];
        let batch = batch(&sentences.map(encode), &device());
        assert_eq!(model.forward(batch.inputs.clone()).dims(), [5, 24, TOKENS]);
        assert_steps_as_bare(
            places(),
            model,
            batch,
            |model, batch| model.loss(batch).0,
            |model, batch| {
                let (mean, signs) = model.loss(batch);
                Loss::mean_over(mean, signs)
            },
        );
    }

    /// What a position has to say must not depend on what follows it.
    #[test]
    fn transformer_lm_is_causal() {
        let model = filled(transformer_lm::model::Writer::new(8, 2, &device()));
        let scores = |tokens: [i64; 3]| {
            let tokens = Tensor::from_data(TensorData::new(tokens.to_vec(), [1, 3]), &device());
            values(&model.forward(tokens).narrow(1, 0, 2))
        };
        assert_values_close("scores", &scores([1, 4, 5]), &scores([1, 4, 9]), 1e-6);
    }

    #[test]
    fn remote_cluster() {
        let model = filled(remote_cluster::model::Net::new(&device()));
        let batch = remote_cluster::model::batch(7, 2, &device());
        assert_eq!((batch.0.dims(), batch.1.dims()), ([7, 2], [7, 1]));
        let step = |model: &remote_cluster::model::Net,
                    (inputs, targets): (Tensor<2>, Tensor<2>)| {
            model.loss(inputs, targets)
        };
        assert_steps_as_bare(places(), model, batch, step, step);
    }

    /// Each replica gets its rows of a batch on the host without a detour, and parameters and gradients move in one copy each.
    #[cfg(feature = "remote-server")]
    #[test]
    fn remote_cluster_moves_no_byte_twice() {
        use remote_cluster::model::{Net, batch};

        for (replicas, ids) in distinct::places() {
            let mut model = wrap(&filled(Net::new(&device())), &ids);
            for step in 0..2 {
                let (_, grads) = model
                    .train_step(batch(8, step, &device()), |net: &Net, (x, y)| {
                        net.loss(x, y)
                    })
                    .expect("it steps");
                model = AdamConfig::new().init().step(RATE, model, grads);
                let (stats, others) = (model.step_stats(), replicas as u64 - 1);
                let bytes = 4 * model.num_params() as u64;
                let seen = |phase: &PhaseStats| (phase.transfers, phase.bytes);
                assert_eq!(seen(&stats.broadcast), (others, others * bytes));
                assert_eq!(seen(&stats.reduce), (others, others * bytes));
                if replicas > 1 {
                    assert_eq!(seen(&stats.scatter), (2 * replicas as u64, 8 * 3 * 4));
                }
            }
        }
    }
}

/// Burn's `simple-regression`.
mod simple_regression {
    use super::*;

    #[derive(Module, Debug)]
    struct Regression {
        input: Linear,
        output: Linear,
        activation: Relu,
    }

    impl Regression {
        fn loss(&self, inputs: Tensor<2>, targets: Tensor<1>) -> Tensor<1> {
            let x = self.activation.forward(self.input.forward(inputs));
            let targets = targets.unsqueeze_dim(1);
            MseLoss::new().forward(self.output.forward(x), targets, Reduction::Mean)
        }
    }

    #[test]
    fn steps_as_bare() {
        let model = filled(Regression {
            input: LinearConfig::new(8, 16).init(&device()),
            output: LinearConfig::new(16, 1).init(&device()),
            activation: Relu::new(),
        });
        let batch = (tensor([10, 8], 1, &device()), tensor([10], 2, &device()));
        let step = |model: &Regression, (inputs, targets): (Tensor<2>, Tensor<1>)| {
            model.loss(inputs, targets)
        };
        assert_steps_as_bare(places(), model, batch, step, step);
    }
}

/// Burn's `mnist`: convolutions with BatchNorm. Replicas normalize by their own shard, as PyTorch's do, so a training step is
/// that of the shards and not that of the whole batch; validation is that of the whole batch.
mod mnist {
    use super::*;

    #[derive(Module, Debug)]
    struct Block {
        conv: Conv2d,
        norm: BatchNorm,
        activation: Gelu,
    }

    #[derive(Module, Debug)]
    struct Mnist {
        blocks: Vec<Block>,
        dropout: Dropout,
        first: Linear,
        last: Linear,
        activation: Gelu,
    }

    impl Mnist {
        fn new(device: &Device) -> Self {
            let block = |from, to| Block {
                conv: Conv2dConfig::new([from, to], [3, 3])
                    .with_padding(PaddingConfig2d::Valid)
                    .init(device),
                norm: BatchNormConfig::new(to).init(device),
                activation: Gelu::new(),
            };
            let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
            filled(Self {
                blocks: vec![block(1, 2), block(2, 3)],
                // A rate would make the numbers those of the generator; `tests/behaviour/dropout.rs` has that.
                dropout: DropoutConfig::new(0.0).init(),
                first: linear(3 * 4 * 4, 6),
                last: linear(6, 10),
                activation: Gelu::new(),
            })
        }

        fn forward(&self, images: Tensor<3>) -> Tensor<2> {
            let mut x = images.unsqueeze_dim::<4>(1);
            for block in &self.blocks {
                x = block
                    .activation
                    .forward(block.norm.forward(block.conv.forward(x)));
            }
            let x = self.dropout.forward(x.flatten::<2>(1, 3));
            self.last
                .forward(self.activation.forward(self.first.forward(x)))
        }

        fn statistics(&self) -> Vec<f32> {
            let norms = self.blocks.iter().map(|block| &block.norm);
            norms
                .flat_map(|norm| {
                    [
                        norm.running_mean.value_sync(),
                        norm.running_var.value_sync(),
                    ]
                })
                .flat_map(|tensor| values(&tensor))
                .collect()
        }
    }

    fn step(model: &Mnist, (images, targets): (Tensor<3>, Tensor<1, Int>)) -> Tensor<1> {
        cross_entropy(model.forward(images), targets)
    }

    #[test]
    fn steps_as_the_shards_on_the_bare_model() {
        let (images, targets) = (tensor([9, 8, 8], 1, &device()), ints([9], 10, &device()));
        for (replicas, ids) in places() {
            let what = format!("{ids:?}");
            let bare = Mnist::new(&device());
            let (mut start, mut expected, mut statistics) = (0, None, Vec::new());
            for rows in balanced_sizes(9, replicas) {
                let shard = (
                    images.clone().narrow(0, start, rows),
                    targets.clone().narrow(0, start, rows),
                );
                let part = step(&bare, shard) * (rows as f64 / 9.0);
                if start == 0 {
                    statistics = bare.statistics();
                }
                expected = Some(expected.map_or(part.clone(), |sum| sum + part));
                start += rows;
            }
            let expected = expected.expect("there are shards");
            let expected_grads = GradientsParams::from_grads(expected.backward(), &bare);

            let wrapper = wrap(&Mnist::new(&device()), &ids);
            let batch = (images.clone(), targets.clone());
            let (loss, grads) = wrapper.train_step(batch, step).expect("it steps");
            assert_values_close(&what, &values(&loss), &values(&expected), TOLERANCE);
            assert_close(
                &what,
                &gradients(&wrapper, &grads),
                &gradients(&bare, &expected_grads),
                TOLERANCE,
            );
            assert_values_close(
                &what,
                &wrapper.module().statistics(),
                &statistics,
                TOLERANCE,
            );
        }
    }

    #[test]
    fn validates_as_bare() {
        let bare = Mnist::new(&device()).valid();
        let images = tensor([9, 8, 8], 1, &device().inner());
        let expected = values(&bare.forward(images.clone()));
        for (_, ids) in places() {
            let found = wrap(&bare, &ids)
                .forward(images.clone(), |model: &Mnist, shard| model.forward(shard))
                .expect("it runs");
            assert_values_close("logits", &values(&found), &expected, TOLERANCE);
        }
    }
}

/// Burn's `text-classification`: a transformer over padded tokens, with a mask that is part of the batch.
mod text_classification {
    use super::*;

    #[derive(Clone, Debug, Scatter)]
    struct Batch {
        tokens: Tensor<2, Int>,
        labels: Tensor<1, Int>,
        mask_pad: Tensor<2, Bool>,
    }

    #[derive(Module, Debug)]
    struct Classifier {
        transformer: TransformerEncoder,
        tokens: Embedding,
        positions: Embedding,
        output: Linear,
        classes: usize,
    }

    impl Classifier {
        fn loss(&self, batch: Batch) -> Tensor<1> {
            let [rows, length] = batch.tokens.dims();
            // As the example does it: on the model's own device, wherever the batch is.
            let device = &self.devices()[0];
            let tokens = batch.tokens.to_device(device);
            let mask_pad = batch.mask_pad.to_device(device);
            let positions = Tensor::arange(0..length as i64, device).reshape([1, length]);
            let positions = positions.repeat_dim(0, rows);
            let x = (self.positions.forward(positions) + self.tokens.forward(tokens)) / 2;
            let input = TransformerEncoderInput::new(x).mask_pad(mask_pad);
            let scores = self.output.forward(self.transformer.forward(input));
            let scores = scores.slice([0..rows, 0..1]).reshape([rows, self.classes]);
            cross_entropy(scores, batch.labels)
        }
    }

    #[test]
    fn steps_as_bare() {
        let model = filled(Classifier {
            transformer: TransformerEncoderConfig::new(8, 16, 2, 2)
                .with_dropout(0.0)
                .with_quiet_softmax(true)
                .init(&device()),
            tokens: EmbeddingConfig::new(11, 8).init(&device()),
            positions: EmbeddingConfig::new(6, 8).init(&device()),
            output: LinearConfig::new(8, 4).init(&device()),
            classes: 4,
        });
        let lengths: [usize; 7] = [6, 1, 3, 6, 2, 5, 4];
        let padded = lengths
            .iter()
            .flat_map(|&length| (0..6).map(move |at| at >= length))
            .collect();
        let batch = Batch {
            tokens: ints([7, 6], 11, &device()),
            labels: ints([7], 4, &device()),
            mask_pad: Tensor::from_data(TensorData::new::<bool, _>(padded, [7, 6]), &device()),
        };
        assert_steps_as_bare(places(), model, batch, Classifier::loss, Classifier::loss);
    }
}

/// Sinusoids instead of learned positions: a tensor in the module that is no parameter, so no visitor is shown it.
mod sinusoids {
    use super::*;

    #[derive(Module, Debug)]
    struct Positioned {
        positions: PositionalEncoding,
        last: Linear,
    }

    fn assert_steps_on(places: Vec<(usize, DeviceIds)>) {
        let model = filled(Positioned {
            positions: PositionalEncodingConfig::new(4)
                .with_max_sequence_size(8)
                .init(&device()),
            last: LinearConfig::new(4, 2).init(&device()),
        });
        let step = |model: &Positioned, x: Tensor<3>| {
            model
                .last
                .forward(tanh(model.positions.forward(x)))
                .powf_scalar(2.0)
                .mean()
        };
        assert_steps_as_bare(places, model, tensor([5, 3, 4], 1, &device()), step, step);
    }

    #[test]
    fn step_as_bare() {
        assert_steps_on(vec![(3, DeviceIds::repeat(0, 3))]);
    }

    #[cfg(feature = "remote-server")]
    #[test]
    fn step_as_bare_on_distinct_devices() {
        assert_steps_on(distinct::places());
    }
}

/// Burn's `wgan`: two models that train each other, weights that are clipped between the steps.
mod wgan {
    use super::*;

    #[derive(Module, Debug)]
    struct Layer {
        linear: Linear,
        norm: BatchNorm,
        activation: LeakyRelu,
    }

    #[derive(Module, Debug)]
    struct Generator {
        layers: Vec<Layer>,
        last: Linear,
        tanh: Tanh,
    }

    #[derive(Module, Debug)]
    struct Critic {
        first: Linear,
        activation: LeakyRelu,
        last: Linear,
    }

    fn leaky() -> LeakyRelu {
        LeakyReluConfig::new().with_negative_slope(0.2).init()
    }

    impl Generator {
        fn new(device: &Device) -> Self {
            let layer = |from, to| Layer {
                linear: LinearConfig::new(from, to).init(device),
                norm: BatchNormConfig::new(to).with_epsilon(0.8).init(device),
                activation: leaky(),
            };
            filled(Self {
                layers: vec![layer(3, 4), layer(4, 6)],
                last: LinearConfig::new(6, 16).init(device),
                tanh: Tanh::new(),
            })
        }

        fn forward(&self, noise: Tensor<2>) -> Tensor<4> {
            let mut x = noise;
            for layer in &self.layers {
                x = layer
                    .activation
                    .forward(layer.norm.forward(layer.linear.forward(x)));
            }
            let rows = x.dims()[0];
            self.tanh
                .forward(self.last.forward(x))
                .reshape([rows, 1, 4, 4])
        }
    }

    impl Critic {
        fn new(device: &Device) -> Self {
            filled(Self {
                first: LinearConfig::new(16, 8).init(device),
                activation: leaky(),
                last: LinearConfig::new(8, 1).init(device),
            })
        }

        fn forward(&self, images: Tensor<4>) -> Tensor<2> {
            let x = self.first.forward(images.flatten(1, 3));
            self.last.forward(self.activation.forward(x))
        }
    }

    struct Clip(f32);

    impl ModuleMapper for Clip {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| {
                let requires_grad = tensor.is_require_grad();
                let clipped = Tensor::from_inner(tensor.inner().clamp(-self.0, self.0));
                if requires_grad {
                    clipped.require_grad()
                } else {
                    clipped
                }
            })
        }
    }

    /// The critic's step, then the generator's through the critic, twice. The generator's BatchNorm sees shards, so the bare
    /// models are given the same shards.
    #[test]
    fn both_models_step_as_bare() {
        const ROWS: usize = 6;
        for (replicas, ids) in places() {
            let (mut generator, mut critic) = (Generator::new(&device()), Critic::new(&device()));
            let (mut dp_generator, mut dp_critic) = (wrap(&generator, &ids), wrap(&critic, &ids));
            let mut optims: Vec<_> = (0..4).map(|_| RmsPropConfig::new().init()).collect();
            for round in 0..2 {
                let what = format!("{replicas} replicas, round {round}");
                let real = tensor([ROWS, 1, 4, 4], 10 + round, &device());
                let noise = tensor([ROWS, 3], 20 + round, &device());

                let generate = |generator: &Generator| {
                    let mut start = 0;
                    let shards = balanced_sizes(ROWS, replicas).into_iter().map(|rows| {
                        let shard = noise.clone().narrow(0, start, rows);
                        start += rows;
                        generator.forward(shard)
                    });
                    Tensor::cat(shards.collect(), 0)
                };
                let fake = generate(&generator).detach();
                let loss = critic.forward(fake).mean() - critic.forward(real.clone()).mean();
                let grads = GradientsParams::from_grads(loss.backward(), &critic);
                critic = optims[0].step(RATE, critic, grads).map(&mut Clip(0.3));
                let loss_g = -critic.forward(generate(&generator)).mean();
                let grads_g = GradientsParams::from_grads(loss_g.backward(), &generator);

                let fake = dp_generator
                    .forward(noise.clone(), |generator: &Generator, shard| {
                        generator.forward(shard)
                    })
                    .expect("it generates")
                    .detach();
                assert_eq!(fake.dims(), [ROWS, 1, 4, 4]);
                let (dp_loss, dp_grads) = dp_critic
                    .train_step((real, fake), |critic: &Critic, (real, fake)| {
                        critic.forward(fake).mean() - critic.forward(real).mean()
                    })
                    .expect("the critic steps");
                dp_critic = optims[2]
                    .step(RATE, dp_critic, dp_grads)
                    .map(&mut Clip(0.3));
                assert_values_close(&what, &values(&dp_loss), &values(&loss), TOLERANCE);
                assert_close(&what, &parameters(&dp_critic), &parameters(&critic), 1e-4);

                // Two wrapped models in a row, inside one graph.
                let fake = dp_generator
                    .forward(noise.clone(), |generator: &Generator, shard| {
                        generator.forward(shard)
                    })
                    .expect("it generates");
                let scores = dp_critic
                    .forward(fake, |critic: &Critic, shard| critic.forward(shard))
                    .expect("it scores");
                let dp_loss_g = -scores.mean();
                let dp_grads_g = GradientsParams::from_grads(dp_loss_g.backward(), &dp_generator);
                assert_values_close(&what, &values(&dp_loss_g), &values(&loss_g), TOLERANCE);
                assert_close(
                    &what,
                    &gradients(&dp_generator, &dp_grads_g),
                    &gradients(&generator, &grads_g),
                    TOLERANCE,
                );
                generator = optims[1].step(RATE, generator, grads_g);
                dp_generator = optims[3].step(RATE, dp_generator, dp_grads_g);
            }
        }
    }

    /// A BatchNorm over single rows has nothing to normalize by: the numbers must stay numbers.
    #[test]
    fn shards_of_one_row_stay_finite() {
        for (replicas, ids) in places() {
            let model = wrap(&Generator::new(&device()), &ids);
            let (loss, grads) = model
                .train_step(
                    tensor([replicas, 3], 1, &device()),
                    |generator: &Generator, shard| {
                        assert_eq!(shard.dims()[0], 1);
                        generator.forward(shard).powf_scalar(2.0).mean()
                    },
                )
                .expect("it steps");
            let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
            assert!(finite(&values(&loss)));
            assert!(
                gradients(&model, &grads)
                    .values()
                    .all(|values| finite(values))
            );
            assert!(
                parameters(&model).values().all(|values| finite(values)),
                "{:?}",
                parameters(&model)
            );
        }
    }
}

/// Burn's `modern-lstm`: cells with LayerNorm, stacked, both directions, and a bias that is assigned at the start.
mod modern_lstm {
    use super::*;

    #[derive(Module, Debug)]
    struct Cell {
        features: usize,
        input: Linear,
        hidden: Linear,
        norm_input: LayerNorm,
        norm_cell: LayerNorm,
        dropout: Dropout,
    }

    impl Cell {
        fn new(input: usize, features: usize, leaf: bool, device: &Device) -> Self {
            let mut cell = filled(Self {
                features,
                input: LinearConfig::new(input, 4 * features).init(device),
                hidden: LinearConfig::new(features, 4 * features).init(device),
                norm_input: LayerNormConfig::new(4 * features).init(device),
                norm_cell: LayerNormConfig::new(features).init(device),
                dropout: DropoutConfig::new(0.0).init(),
            });
            // The forget gate starts open. The new bias is the result of an operation on the old one.
            let bias = cell.input.bias.clone().expect("there is a bias").val();
            let ones = Tensor::ones([features], device);
            let bias = bias.slice_assign(s![features..2 * features], ones);
            let bias = if leaf {
                bias.detach().require_grad()
            } else {
                bias
            };
            cell.input.bias = cell.input.bias.map(|param| param.map(|_| bias));
            cell
        }

        fn forward(&self, x: Tensor<2>, state: LstmState<2>) -> LstmState<2> {
            let gates =
                self.norm_input.forward(self.input.forward(x)) + self.hidden.forward(state.hidden);
            let [input, forget, new, output]: [Tensor<2>; 4] =
                gates.chunk(4, 1).try_into().expect("four gates");
            let cell = sigmoid(forget) * state.cell + sigmoid(input) * tanh(new);
            let cell = self.norm_cell.forward(cell);
            let hidden = self.dropout.forward(sigmoid(output) * tanh(cell.clone()));
            LstmState::new(cell, hidden)
        }
    }

    #[derive(Module, Debug)]
    struct Network {
        cells: Vec<Cell>,
        reverse: Option<Vec<Cell>>,
        last: Linear,
    }

    fn read(cells: &[Cell], x: &Tensor<3>) -> Tensor<3> {
        let [rows, length, _] = x.dims();
        let device = x.device();
        let start = |cell: &Cell| LstmState::initial([rows, cell.features], &device);
        let mut states: Vec<LstmState<2>> = cells.iter().map(start).collect();
        let mut outputs = Vec::new();
        for step in 0..length {
            let mut input: Tensor<2> = x.clone().narrow(1, step, 1).squeeze_dim(1);
            for (cell, state) in cells.iter().zip(&mut states) {
                *state = cell.forward(
                    input,
                    LstmState::new(state.cell.clone(), state.hidden.clone()),
                );
                input = state.hidden.clone();
            }
            outputs.push(input);
        }
        Tensor::stack(outputs, 1)
    }

    impl Network {
        fn forward(&self, x: Tensor<3>) -> Tensor<2> {
            let mut output = read(&self.cells, &x);
            if let Some(reverse) = &self.reverse {
                let back = read(reverse, &x.clone().flip([1])).flip([1]);
                output = Tensor::cat(vec![output, back], 2);
            }
            let length = x.dims()[1];
            self.last
                .forward(output.narrow(1, length - 1, 1).squeeze_dim(1))
        }
    }

    fn network(leaf: bool) -> Network {
        let cells = || {
            vec![
                Cell::new(1, 4, leaf, &device()),
                Cell::new(4, 4, leaf, &device()),
            ]
        };
        Network {
            cells: cells(),
            reverse: Some(cells()),
            last: filled(LinearConfig::new(8, 1).init(&device())),
        }
    }

    fn batch() -> (Tensor<3>, Tensor<2>) {
        (
            tensor([7, 5, 1], 1, &device()),
            tensor([7, 1], 2, &device()),
        )
    }

    fn step(model: &Network, (x, targets): (Tensor<3>, Tensor<2>)) -> Tensor<1> {
        MseLoss::new().forward(model.forward(x), targets, Reduction::Mean)
    }

    #[test]
    fn steps_as_bare() {
        assert_steps_as_bare(places(), network(true), batch(), step, step);
    }

    /// Built as the example builds it, the bare model's assigned biases are no leaves, so they get no gradient and never
    /// learn, without a word. Wrapping makes leaves of them.
    #[test]
    fn biases_that_are_no_leaves_learn_when_wrapped() {
        let bare = network(false);
        let grads = GradientsParams::from_grads(step(&bare, batch()).backward(), &bare);
        let leaves = network(true);
        let expected = GradientsParams::from_grads(step(&leaves, batch()).backward(), &leaves);
        assert_eq!(
            grads.len() + 4,
            expected.len(),
            "Burn has changed: the test can go"
        );
        for (_, ids) in places() {
            let wrapper = wrap(&bare, &ids);
            let (_, grads) = wrapper.train_step(batch(), step).expect("it steps");
            assert_close(
                "gradients",
                &gradients(&wrapper, &grads),
                &gradients(&leaves, &expected),
                TOLERANCE,
            );
        }
    }
}
