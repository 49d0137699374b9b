//! Saved files are those of the bare model, both ways, and a run goes on from them with any number of replicas.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use burn_dp::{DataParallel, DeviceIds};

use crate::compare::{assert_close, bits, parameters, values};
use crate::equivalence::{RATE, TOLERANCE, adam};
use crate::models::{Masked, Mlp, Nested, Normed, device, filled, tensor};

fn wrap<M: Module>(model: M, replicas: usize) -> DataParallel<M> {
    DataParallel::new(model, DeviceIds::repeat(0, replicas)).expect("it wraps")
}

fn bytes<M: Module>(model: &M) -> Vec<u8> {
    model
        .clone()
        .into_record()
        .into_bytes()
        .expect("it serializes")
        .to_vec()
}

fn steps(
    mut model: DataParallel<Normed>,
    optim: &mut ModuleOptimizer,
    steps: std::ops::Range<usize>,
) -> DataParallel<Normed> {
    for step in steps {
        let (_, grads) = model
            .train_step(tensor([8, 3], step, &device()), |replica: &Normed, x| {
                replica.forward(x).powf_scalar(2.0).mean()
            })
            .expect("the step works");
        model = optim.step(RATE, model, grads);
    }
    model
}

#[test]
fn paths_have_no_prefix() {
    let bare = Nested::new(&device());
    let model = wrap(bare.clone(), 3);
    let (found, expected) = (parameters(&model), parameters(&bare));
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    assert!(found.contains_key("layers.0.weight"), "{:?}", found.keys());
}

#[test]
fn records_are_byte_equal_to_those_of_the_bare_model() {
    fn check<M: Module>(what: &str, bare: M) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (bare_path, path) = (
            folder.path().join("bare.bpk"),
            folder.path().join("wrapped.bpk"),
        );
        let model = wrap(bare.clone(), 3);
        assert_eq!(bytes(&bare), bytes(&model), "{what}: in memory");
        bare.save_file(&bare_path).expect("it saves");
        model.save_file(&path).expect("it saves");
        let read = |path| std::fs::read(path).expect("the file is there");
        let (bare, found) = (read(bare_path), read(path));
        assert!(!bare.is_empty());
        assert_eq!(bare, found, "{what}: files");
    }
    check("MLP", Mlp::new(&device()));
    check("nested", Nested::new(&device()));
    check("norm", Normed::new(&device()));
    check("int and bool", Masked::new(&device()));
}

#[test]
fn wrapped_to_bare_to_wrapped_keeps_every_byte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.bpk");
    let source = Nested::new(&device());
    let model = wrap(source, 3);
    let (_, grads) = model
        .train_step(tensor([7, 3], 1, &device()), |replica: &Nested, x| {
            replica.forward(x).mean()
        })
        .expect("the step works");
    let trained = adam().step(RATE, model, grads);
    let expected = bytes(&trained);
    trained.save_file(&path).expect("it saves");

    let bare = Nested::new(&device())
        .try_load_file(&path)
        .expect("a bare model loads it");
    assert_eq!(expected, bytes(&bare));
    bare.save_file(&path).expect("it saves");
    let again = wrap(Nested::new(&device()), 2)
        .try_load_file(&path)
        .expect("a wrapped model loads it");
    assert_eq!(expected, bytes(&again));
}

/// Statistics too, all but their ids: Burn itself does not take those from a record.
#[test]
fn running_statistics_are_saved_and_loaded() {
    let trained = steps(wrap(Normed::new(&device()), 3), &mut adam(), 0..3);
    let expected = bits(&parameters(&trained));
    assert_ne!(expected, bits(&parameters(&Normed::new(&device()))));
    let record = trained.into_record();
    let bare = Normed::new(&device()).load_record(record);
    assert_eq!(expected, bits(&parameters(&bare)));
    let again = wrap(Normed::new(&device()), 2).load_record(bare.into_record());
    assert_eq!(expected, bits(&parameters(&again)));
}

/// Replicas that exist already must get the loaded values.
#[test]
fn loading_into_a_wrapper_in_use_changes_its_replicas_too() {
    // The layers one by one have other values than within the model.
    let source = Mlp::new(&device());
    let source = Mlp {
        first: filled(source.first),
        last: filled(source.last),
    };
    let model = wrap(Mlp::new(&device()), 3);
    let x = tensor([7, 3], 1, &device());
    let output = |model: &DataParallel<Mlp>| {
        model
            .forward(x.clone(), |replica: &Mlp, x| replica.forward(x))
            .expect("forward works")
    };
    let before = values(&output(&model));
    let expected = values(&source.forward(x.clone()));
    let loaded = model.load_record(source.into_record());
    let after = values(&output(&loaded));
    assert_ne!(before, after, "the test could not fail");
    crate::compare::assert_values_close("loaded", &after, &expected, 1e-6);
    let (_, grads) = loaded
        .train_step(x, |replica: &Mlp, x: Tensor<2>| replica.forward(x).mean())
        .expect("the step works");
    assert_eq!(grads.len(), 4, "loaded parameters train");
}

#[test]
fn a_record_of_another_shape_is_an_error() {
    let record = Normed::new(&device()).into_record();
    let result = wrap(Mlp::new(&device()), 2).try_load_record(record);
    assert!(result.is_err());
}

/// Training goes on as if it had not stopped: model and optimizer saved, loaded into new ones.
#[test]
fn a_run_resumes_bit_for_bit_with_the_same_replicas() {
    let (resumed, unbroken) = resume(3, 3);
    assert_eq!(bits(&parameters(&resumed)), bits(&parameters(&unbroken)));
}

fn resume(before: usize, after: usize) -> (DataParallel<Normed>, DataParallel<Normed>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model_path, optim_path) = (folder.path().join("model"), folder.path().join("optim"));
    let start = Normed::new(&device());
    // Frozen statistics: they follow the primary's shard, which depends on the number of replicas by design.
    let start = Normed {
        norm: start
            .norm
            .clone()
            .freeze()
            .unfreeze_group(burn::module::ParamGroup::from_paths(vec!["gamma", "beta"])),
        ..start
    };
    let mut optim = adam();
    let unbroken = steps(wrap(private(&start), before), &mut optim, 0..8);

    let mut optim = adam();
    let first = steps(wrap(private(&start), before), &mut optim, 0..4);
    first.save_file(&model_path).expect("it saves");
    optim.save(&optim_path).expect("it saves");
    let model = wrap(private(&start), after).load_file(&model_path);
    let mut optim = adam().load(&optim_path).expect("it loads");
    (steps(model, &mut optim, 4..8), unbroken)
}

/// A model that shares no running statistics with `model`.
fn private(model: &Normed) -> Normed {
    model.valid().train()
}

#[test]
fn a_run_resumes_with_another_number_of_replicas() {
    for (before, after) in [(3, 1), (1, 4), (2, 3)] {
        let (resumed, unbroken) = resume(before, after);
        let what = format!("{before}, then {after} replicas");
        assert_close(
            &what,
            &parameters(&resumed),
            &parameters(&unbroken),
            TOLERANCE,
        );
    }
}

/// Without the optimizer's state the run would differ: else the test above could not fail.
#[test]
fn the_optimizer_record_matters() {
    let start = Normed::new(&device());
    let mut optim = adam();
    let trained = steps(wrap(private(&start), 2), &mut optim, 0..4);
    let bytes = optim.into_bytes().expect("it serializes");
    let again = private(trained.module());
    let other = private(trained.module());
    let mut loaded = adam().from_bytes(bytes).expect("it loads");
    let kept = steps(wrap(again, 2), &mut loaded, 4..6);
    let lost = steps(wrap(other, 2), &mut adam(), 4..6);
    let whole = steps(trained, &mut optim, 4..6);
    assert_eq!(bits(&parameters(&kept)), bits(&parameters(&whole)));
    assert_ne!(bits(&parameters(&lost)), bits(&parameters(&whole)));
}
