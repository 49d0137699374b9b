//! What a program meets under a mask.

use crate::support::inventory;
use crate::{physical, visible};
use burn_visible_devices::{
    DeviceKind, DiagnosticKind, DriverOutcome, Environment, EnvironmentSnapshot, Inventory,
    Ordinal, PhysicalId, VisibilityError, VisibleDevices,
};

pub fn a_mask_numbers_from_zero() {
    let visible = visible(Some("2,3"), "P4");
    let ordinals: Vec<u32> = visible
        .devices()
        .iter()
        .map(|device| device.ordinal.get())
        .collect();
    assert_eq!((ordinals, physical(&visible)), (vec![0, 1], vec![2, 3]));
    assert_eq!(
        visible.primary().map(|device| device.physical),
        Some(PhysicalId::from(2))
    );
}

pub fn ordinals_translate_to_cards() {
    let visible = visible(Some("2,3"), "P4");
    assert_eq!(
        visible.physical_of(Ordinal::from(0)).expect("visible"),
        PhysicalId::from(2)
    );
    assert_eq!(
        visible.physical_of(Ordinal::from(1)).expect("visible"),
        PhysicalId::from(3)
    );
    let error = visible
        .physical_of(Ordinal::from(2))
        .expect_err("two are visible");
    assert!(
        error.to_string().contains("device 2 is not visible"),
        "{error}"
    );
}

pub fn a_card_translates_back_to_its_ordinal() {
    let visible = visible(Some("1,2"), "P4");
    for device in visible.devices() {
        assert_eq!(
            visible.ordinal_of(device.physical).expect("visible"),
            device.ordinal
        );
    }
    let error = visible.ordinal_of(PhysicalId::from(0)).expect_err("masked");
    assert!(error.to_string().contains("1 -> 0, 2 -> 1"), "{error}");
}

pub fn a_later_change_is_reported_and_ignored() {
    let snapshot = EnvironmentSnapshot::new();
    let first = snapshot.visible(&Environment::cuda(Some("2,3"), None), || inventory("P4"));
    let later = snapshot.visible(&Environment::cuda(Some("0"), None), || {
        panic!("the cards are read once")
    });
    assert_eq!(
        (physical(&first), physical(&later)),
        (vec![2, 3], vec![2, 3])
    );
    assert!(first.diagnostics().is_empty());
    let kinds: Vec<_> = later.diagnostics().iter().map(|odd| odd.kind).collect();
    assert_eq!(kinds, [DiagnosticKind::AlreadyInitialized]);
}

pub fn two_masks_compose() {
    let rocm = |rocr: &str, name: &str, hip: &str| {
        let lookup = |variable: &str| match variable {
            "ROCR_VISIBLE_DEVICES" => Some(rocr.to_owned()),
            variable => (variable == name).then(|| hip.to_owned()),
        };
        let environment = Environment::from_lookup(DeviceKind::Rocm, lookup);
        VisibleDevices::resolve_environment(&environment, &inventory("P8"))
    };
    for name in ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
        assert_eq!(physical(&rocm("0,3,4,7", name, "0,1")), [0, 3]);
        assert_eq!(physical(&rocm("0,3,4,7", name, "3,2")), [7, 4]);
        let none = rocm("1", name, "1");
        assert!(physical(&none).is_empty());
        assert_eq!(none.diagnostics()[0].variable, name);
    }
}

pub fn a_missing_driver_is_told() {
    let machine = Inventory::empty("libcuda is not there");
    for mask in [None, Some("0"), Some("abc")] {
        let visible = VisibleDevices::resolve(mask, None, &machine);
        assert!(!visible.is_available());
        assert!(matches!(
            visible.outcome(),
            DriverOutcome::DriverMissing { .. }
        ));
        assert_eq!(visible.diagnostics()[0].kind, DiagnosticKind::DriverMissing);
        let error = visible.select([0]).expect_err("there is no device");
        assert!(
            matches!(error, VisibilityError::DriverMissing { .. }),
            "{error:?}"
        );
    }
    // On this machine, whatever it has.
    let here = VisibleDevices::from_env(DeviceKind::Cuda);
    assert_eq!(here.is_available(), here.device_count() > 0);
}
