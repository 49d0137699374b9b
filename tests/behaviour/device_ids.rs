//! Which devices: what is accepted, and the errors for what is not.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DataParallelConfig, DataParallelError, DeviceIds, RandomOrder};

use crate::compare::{bits, parameters};
use crate::models::{Mlp, device, tensor};

fn error(ids: impl Into<DeviceIds>) -> DataParallelError {
    DataParallel::new(Mlp::new(&device()), ids).expect_err("these ids are not accepted")
}

#[test]
fn an_empty_list_is_an_error_that_says_what_there_is() {
    for ids in [DeviceIds::from(Vec::<usize>::new()), DeviceIds::devices([])] {
        let error = error(ids);
        assert!(
            matches!(error, DataParallelError::NoDevices { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("DeviceIds::all()"), "{error}");
    }
    let error = DataParallelConfig::new()
        .with_device_ids(vec![])
        .init(Mlp::new(&device()))
        .expect_err("an empty list is not all devices");
    assert!(
        matches!(error, DataParallelError::NoDevices { .. }),
        "{error}"
    );
}

#[test]
fn a_repeated_id_is_an_error_unless_asked_for() {
    for ids in [
        DeviceIds::from([0, 0]),
        DeviceIds::devices([Device::flex(), Device::flex()]),
    ] {
        match error(ids.clone()) {
            DataParallelError::RepeatedDevice {
                first,
                second,
                device,
            } => {
                assert_eq!((first, second), (0, 1));
                assert!(device.contains("Flex"), "{device}");
            }
            other => panic!("another error: {other}"),
        }
        let model = DataParallelConfig::new()
            .with_allow_repeated(true)
            .init_on(Mlp::new(&device()), ids)
            .expect("repeats were asked for");
        assert_eq!(model.replica_count(), 2);
    }
    // An autodiff device is the same hardware.
    let error = error(DeviceIds::devices([Device::flex(), device()]));
    assert!(
        matches!(error, DataParallelError::RepeatedDevice { .. }),
        "{error}"
    );
}

#[test]
fn an_id_that_is_not_there_is_an_error_that_names_it() {
    match error([0, 3]) {
        DataParallelError::DeviceNotFound {
            id,
            position,
            available,
        } => {
            assert_eq!((id, position), (3, 1));
            assert!(available.contains("one device"), "{available}");
        }
        other => panic!("another error: {other}"),
    }
    assert!(matches!(
        error([usize::MAX]),
        DataParallelError::DeviceNotFound { .. }
    ));
    assert!(matches!(
        error(DeviceIds::repeat(1, 2)),
        DataParallelError::DeviceNotFound { id: 1, .. }
    ));
}

#[test]
fn no_replicas_or_absurdly_many_are_an_error() {
    for replicas in [0, 1025, usize::MAX] {
        match error(DeviceIds::repeat(0, replicas)) {
            DataParallelError::ReplicaCount {
                replicas: asked,
                max,
            } => {
                assert_eq!((asked, max), (replicas, 1024));
            }
            other => panic!("another error: {other}"),
        }
    }
    let error = DataParallelConfig::new()
        .with_device_ids(vec![0; 2000])
        .with_allow_repeated(true)
        .init(Mlp::new(&device()))
        .expect_err("2000 are too many");
    assert!(
        matches!(
            error,
            DataParallelError::ReplicaCount { replicas: 2000, .. }
        ),
        "{error}"
    );
}

#[test]
fn a_refused_list_leaves_the_model_as_it_was() {
    let model = Mlp::new(&device());
    let before = bits(&parameters(&model));
    for ids in [
        DeviceIds::from([7]),
        DeviceIds::repeat(0, 0),
        DeviceIds::from([0, 0]),
    ] {
        DataParallel::new(model.clone(), ids).expect_err("not accepted");
    }
    assert_eq!(before, bits(&parameters(&model)));
}

#[test]
fn ids_come_in_every_form() {
    let model = || Mlp::new(&device());
    for ids in [
        DeviceIds::all(),
        [0].into(),
        vec![0].into(),
        [0usize].as_slice().into(),
        DeviceIds::repeat(0, 1),
    ] {
        let wrapped = DataParallel::new(model(), ids).expect("it wraps");
        assert_eq!(wrapped.device_ids(), Some([0].as_slice()));
        assert_eq!(wrapped.replica_count(), 1);
        assert_eq!(*wrapped.primary(), Device::flex());
        assert_eq!(wrapped.output_device(), wrapped.primary());
        assert!(wrapped.primary().is_autodiff(), "devices follow the model");
    }
    let given = DataParallel::new(model(), DeviceIds::devices([Device::flex()])).expect("it wraps");
    assert_eq!(
        given.device_ids(),
        None,
        "a device given as such has no ordinal"
    );
    let repeated = DataParallel::new(model(), DeviceIds::repeat(0, 3)).expect("it wraps");
    assert_eq!(repeated.device_ids(), Some([0, 0, 0].as_slice()));
}

#[test]
fn an_output_device_outside_the_list_is_an_error() {
    let config = DataParallelConfig::new().with_output_device(1);
    match config.init_on(Mlp::new(&device()), DeviceIds::repeat(0, 2)) {
        Err(DataParallelError::OutputDevice {
            output_device,
            device_ids,
        }) => {
            assert_eq!(output_device, 1, "an ordinal, not a position");
            assert_eq!(device_ids, "[0, 0]");
        }
        other => panic!("it was accepted, or another error: {other:?}"),
    }
    let error = config
        .init_on(Mlp::new(&device()), DeviceIds::devices([Device::flex()]))
        .expect_err("one device has no position 1");
    assert!(
        matches!(error, DataParallelError::OutputDevice { .. }),
        "{error}"
    );
    DataParallelConfig::new()
        .with_output_device(0)
        .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 2))
        .expect("0 is in the list");
}

/// A model without parameters has no backend to look ids up on, but runs on devices that are given.
#[test]
fn a_model_without_parameters_needs_devices() {
    let model = || DropoutConfig::new(0.0).init();
    for ids in [DeviceIds::all(), [0].into(), DeviceIds::repeat(0, 2)] {
        let error = DataParallel::new(model(), ids).expect_err("no parameter");
        assert!(matches!(error, DataParallelError::NoParameters), "{error}");
    }
    let wrapped = DataParallelConfig::new()
        .with_allow_repeated(true)
        .init_on(
            model(),
            DeviceIds::devices([Device::flex(), Device::flex()]),
        )
        .expect("devices were given");
    let output = wrapped
        .forward(
            tensor([4, 3], 1, &Device::flex()),
            |replica: &Dropout, x: Tensor<2>| replica.forward(x),
        )
        .expect("forward works");
    assert_eq!(output.dims(), [4, 3]);
}

#[test]
fn strict_accepts_a_model_that_is_on_the_primary() {
    let model = DataParallelConfig::new()
        .with_strict(true)
        .init_on(Mlp::new(&device()), DeviceIds::repeat(0, 2));
    assert!(model.is_ok(), "{model:?}");
}

/// A model on a plain device stays one: inference on several replicas, and no gradients.
#[test]
fn a_model_without_autodiff_runs() {
    let plain = Device::flex();
    let bare = Mlp::new(&device()).valid();
    let model = DataParallel::new(bare.clone(), DeviceIds::repeat(0, 3)).expect("it wraps");
    assert!(!model.primary().is_autodiff());
    let x = tensor([5, 3], 1, &plain);
    let output = model
        .forward(x.clone(), |replica: &Mlp, x| replica.forward(x))
        .expect("forward works");
    assert!(!output.is_autodiff());
    crate::compare::assert_values_close(
        "plain",
        &crate::compare::values(&output),
        &crate::compare::values(&bare.forward(x)),
        1e-6,
    );
}

fn config() -> DataParallelConfig {
    DataParallelConfig::new()
        .with_device_ids(vec![0, 0])
        .with_output_device(0)
        .with_dim(1)
        .with_strict(true)
        .with_allow_repeated(true)
        .with_random_order(RandomOrder::InTurn)
}

#[test]
fn a_configuration_is_saved_and_loaded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("config.json");
    for config in [config(), DataParallelConfig::new()] {
        config.save(&path).expect("it saves");
        let loaded = DataParallelConfig::load(&path).expect("it loads");
        assert_eq!(loaded, config);
        let json = serde_json::to_string(&config).expect("it serializes");
        assert_eq!(
            serde_json::from_str::<DataParallelConfig>(&json).expect("it parses"),
            config
        );
    }
    let model = config().init(Mlp::new(&device())).expect("it wraps");
    assert_eq!(model.replica_count(), 2);
}

#[test]
fn a_configuration_refuses_unknown_fields_and_fills_in_missing_ones() {
    let error =
        DataParallelConfig::load_binary(br#"{"device_id": [0, 1]}"#).expect_err("a mistyped field");
    assert!(format!("{error:?}").contains("device_id"), "{error:?}");
    let error = DataParallelConfig::load_binary(br#"{"random_order": "sometimes"}"#)
        .expect_err("no such order");
    assert!(format!("{error:?}").contains("sometimes"), "{error:?}");
    let partial =
        DataParallelConfig::load_binary(br#"{"dim": 2}"#).expect("missing fields have defaults");
    assert_eq!(partial, DataParallelConfig::new().with_dim(2));
}
