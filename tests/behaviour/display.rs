//! What a wrapper shows: its devices, its primary, and the model inside.

use burn::module::Module;
use burn::tensor::Device;
use burn_dp::{DataParallel, DeviceIds};

use crate::models::{Mlp, Nested, device};

#[test]
fn display_and_debug_show_devices_primary_and_model() {
    let model = DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, 3)).expect("it wraps");
    let shown = format!("{model}");
    for part in [
        "DataParallel",
        "primary",
        "Mlp",
        "Linear",
        "first",
        "d_input: 3",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    assert_eq!(
        shown.matches("0: Flex").count(),
        3,
        "one entry a replica:\n{shown}"
    );
    assert!(shown.contains("params: 32"), "{shown}");

    let debug = format!("{model:?}");
    for part in [
        "DataParallel",
        "primary",
        "output_device",
        "dim: 0",
        "Mlp",
        "weight",
    ] {
        assert!(debug.contains(part), "{part:?} is not in\n{debug}");
    }
    assert_eq!(debug.matches("0: Flex").count(), 3, "{debug}");
}

#[test]
fn counts_and_devices_are_those_of_the_model() {
    let bare = Nested::new(&device());
    let model = DataParallel::new(bare.clone(), DeviceIds::repeat(0, 4)).expect("it wraps");
    assert_eq!(
        model.num_params(),
        bare.num_params(),
        "replicas do not count"
    );
    assert!(model.num_params() > 0);
    assert_eq!(model.devices(), vec![Device::flex()]);
    assert_eq!(model.replica_devices().len(), 4);
    assert_eq!(model.replica_count(), 4);
}
