//! burn-store: a wrapped model is saved and loaded as the bare one, and replicas follow what was loaded.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use burn_dp::{DataParallel, DeviceIds};
use burn_store::{ModuleSnapshot, ModuleStore, PytorchStore, SafetensorsStore};

use crate::compare::{assert_values_close, bits, parameters, values};
use crate::models::{Normed, device, tensor};

fn wrapped(net: Normed) -> DataParallel<Normed> {
    DataParallel::new(net, DeviceIds::repeat(0, 3)).expect("it wraps")
}

/// A net with other values than a new one.
fn other() -> Normed {
    let net = wrapped(Normed::new(&device()));
    let step = |net: &Normed, x| net.forward(x).powf_scalar(2.0).mean();
    let (_, grads) = net
        .train_step(tensor([9, 3], 3, &device()), step)
        .expect("it works");
    let mut optim = burn::optim::SgdConfig::new().init();
    let net = optim.step(0.5, net, grads).into_inner();
    // Burn applies the statistics of a forward with the next one, or with `valid`.
    drop(net.valid());
    net
}

fn outputs(net: &DataParallel<Normed>, x: Tensor<2>) -> Vec<f32> {
    let forward = |net: &Normed, x| net.forward(x);
    let output = net.valid().forward(x.inner(), forward).expect("it works");
    values(&output)
}

#[test]
fn safetensors_have_the_same_keys_and_load_both_ways() {
    let net = other();
    // Its metadata stand in any order.
    let mut bare = SafetensorsStore::from_bytes(None).clear_metadata();
    net.save_into(&mut bare).expect("it saves");
    let mut from_wrapper = SafetensorsStore::from_bytes(None).clear_metadata();
    wrapped(net.clone())
        .save_into(&mut from_wrapper)
        .expect("it saves");
    let bytes = bare.get_bytes().expect("it was saved");
    assert_eq!(bytes, from_wrapper.get_bytes().expect("it was saved"));
    let mut store = SafetensorsStore::from_bytes(Some(bytes));
    let keys = store.keys().expect("they are read");
    assert!(keys.contains(&"first.weight".to_string()), "{keys:?}");

    let mut loaded = wrapped(Normed::new(&device()));
    loaded.load_from(&mut store).expect("it loads");
    let expected = bits(&parameters(&net.valid()));
    assert_eq!(bits(&parameters(&loaded.valid())), expected);
    let mut loaded = Normed::new(&device());
    loaded.load_from(&mut store).expect("it loads");
    assert_eq!(bits(&parameters(&loaded.valid())), expected);
}

/// Loading goes through `&mut`, so a wrapper that has stepped already must notice.
#[test]
fn replicas_follow_what_was_loaded() {
    let net = other();
    let mut store = SafetensorsStore::from_bytes(None);
    net.save_into(&mut store).expect("it saves");
    let bytes = store.get_bytes().expect("it was saved");
    let mut model = wrapped(Normed::new(&device()));
    let step = |net: &Normed, x| net.forward(x).powf_scalar(2.0).mean();
    let x = || tensor([9, 3], 5, &device());
    model.train_step(x(), step).expect("it works");
    outputs(&model, x());
    let mut store = SafetensorsStore::from_bytes(Some(bytes));
    model.load_from(&mut store).expect("it loads");

    let expected = net.valid().forward(x().inner());
    assert_values_close(
        "validation",
        &outputs(&model, x()),
        &values(&expected),
        1e-6,
    );
    // In training each replica normalizes its own shard: a fresh wrapper of the loaded net has the right numbers.
    let (loss, _) = model.train_step(x(), step).expect("it works");
    let (expected, _) = wrapped(net).train_step(x(), step).expect("it works");
    assert_eq!(values(&loss), values(&expected));
}

/// `tests/data/torch` holds what PyTorch saved and computed; `make.py` there says how.
fn torch(file: &str) -> std::path::PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data/torch").join(file)
}

fn assert_gives_what_torch_gave(model: &DataParallel<Normed>) {
    let text = std::fs::read_to_string(torch("expected.json")).expect("it is there");
    let expected: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let numbers = |key: &str| -> Vec<f32> {
        let rows = expected[key].as_array().expect("rows");
        let rows = rows.iter().flat_map(|row| row.as_array().expect("a row"));
        rows.map(|number| number.as_f64().expect("a number") as f32)
            .collect()
    };
    let inputs = numbers("inputs");
    let rows = inputs.len() / 3;
    let x = Tensor::from_data(TensorData::new(inputs, [rows, 3]), &device());
    assert_values_close("PyTorch", &outputs(model, x), &numbers("outputs"), 1e-5);
}

#[test]
fn weights_of_pytorch_load_into_a_wrapped_model() {
    let mut model = wrapped(Normed::new(&device()));
    let mut store = PytorchStore::from_file(torch("net.pt"));
    model.load_from(&mut store).expect("it loads");
    assert_gives_what_torch_gave(&model);
}

/// PyTorch's DataParallel puts `module.` before every key; one remapping takes it off.
#[test]
fn weights_of_pytorchs_data_parallel_load_too() {
    let mut model = wrapped(Normed::new(&device()));
    let mut store =
        PytorchStore::from_file(torch("data_parallel.pt")).with_key_remapping(r"^module\.", "");
    model.load_from(&mut store).expect("it loads");
    assert_gives_what_torch_gave(&model);
}
