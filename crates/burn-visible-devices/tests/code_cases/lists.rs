//! Lists given in code.

use crate::{physical, visible};
use burn_visible_devices::{
    Inventory, Ordinal, PhysicalId, VisibilityError, VisibleDevices, imbalance,
};

pub fn a_repeat_is_refused() {
    let error = visible(None, "P2").select([0, 0]).expect_err("a repeat");
    assert!(
        matches!(
            error,
            VisibilityError::Duplicate {
                position: 1,
                first_position: 0,
                ..
            }
        ),
        "{error}"
    );
}

pub fn an_ordinal_that_is_not_visible_is_refused() {
    let error = visible(None, "P2")
        .select([100])
        .expect_err("there are two");
    assert!(
        matches!(
            error,
            VisibilityError::OutOfRange {
                position: 0,
                count: 2,
                ..
            }
        ),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("100") && text.contains("2 visible") && text.contains("0 -> 0, 1 -> 1"),
        "{text}"
    );
}

pub fn a_word_is_refused() {
    let error = visible(None, "P2").select_str("0,abc").expect_err("a word");
    assert!(
        matches!(&error, VisibilityError::Unparsable { entry, position: 1, .. } if entry == "abc"),
        "{error:?}"
    );
}

pub fn an_empty_list_is_refused() {
    let none: [u32; 0] = [];
    let error = visible(None, "P2")
        .select(none)
        .expect_err("nothing was asked for");
    assert!(
        matches!(error, VisibilityError::EmptyList { .. }),
        "{error:?}"
    );
}

pub fn the_first_of_the_list_is_primary() {
    let chosen = visible(Some("2,3"), "P4")
        .select([1, 0])
        .expect("both are visible");
    let primary = chosen.primary().expect("two devices");
    assert_eq!(
        (primary.ordinal, primary.driver_ordinal, primary.physical),
        (Ordinal::from(0), 1, PhysicalId::from(3))
    );
    // Selections compose: 1 is now the device that the driver calls 0.
    let again = chosen.select([1]).expect("it is visible");
    assert_eq!(
        (again.devices()[0].driver_ordinal, physical(&again)),
        (0, vec![2])
    );
}

pub fn a_physical_number_under_a_mask_is_refused_with_a_hint() {
    let visible = visible(Some("4"), "P8");
    for text in [
        visible
            .select([4])
            .expect_err("only 0 is visible")
            .to_string(),
        visible
            .name(Ordinal::from(4))
            .expect_err("only 0 is visible")
            .to_string(),
    ] {
        assert!(text.contains("logical 0 is physical 4"), "{text}");
    }
}

pub fn unequal_devices_give_one_warning() {
    let warning = |memory: u64, multiprocessors: u32| {
        let json = format!(
            r#"{{"devices": [
                {{"physical": 0, "uuid": "GPU-00", "memory_total_bytes": 4000, "multiprocessors": 100}},
                {{"physical": 1, "uuid": "GPU-01", "memory_total_bytes": {memory}, "multiprocessors": {multiprocessors}}}
            ]}}"#
        );
        let inventory = Inventory::from_json(&json).expect("two cards");
        imbalance(VisibleDevices::resolve(None, None, &inventory).devices())
            .map(|warning| warning.to_string())
    };
    assert_eq!(warning(3000, 75), None);
    assert!(warning(2996, 100).is_some_and(|text| text.contains("memory")));
    assert!(warning(4000, 74).is_some_and(|text| text.contains("multiprocessors")));
    assert!(warning(2996, 74).is_some_and(|text| text.contains("memory")));
}
