//! Every `prog` row of `tests/data/visibility-cases.tsv`: lists given in code, and what a program meets when it uses
//! the visible list.

mod lists;
mod masks;
#[path = "../support/mod.rs"]
mod support;

use burn_visible_devices::VisibleDevices;
use support::{inventory, rows};

#[test]
fn every_row_holds() {
    let mut passed = 0;
    let mut elsewhere = 0;
    for row in rows("visibility-cases.tsv")
        .iter()
        .filter(|row| row[0] == "prog")
    {
        match row[1].as_str() {
            "P1" => lists::a_repeat_is_refused(),
            "P2" => lists::an_ordinal_that_is_not_visible_is_refused(),
            "P3" => lists::a_word_is_refused(),
            "P4" => lists::an_empty_list_is_refused(),
            "P5" => masks::a_mask_numbers_from_zero(),
            "P6" => lists::the_first_of_the_list_is_primary(),
            "P7" => lists::a_physical_number_under_a_mask_is_refused_with_a_hint(),
            "P8" => masks::ordinals_translate_to_cards(),
            // Output devices belong to the data-parallel wrapper, which has its own test.
            "P9" => {
                elsewhere += 1;
                continue;
            }
            // The documentation of `PhysicalId` holds the program that must not compile.
            "P10" => masks::a_card_translates_back_to_its_ordinal(),
            "P11" => masks::a_later_change_is_reported_and_ignored(),
            "P12" => lists::unequal_devices_give_one_warning(),
            "P13" => masks::two_masks_compose(),
            "P14" => masks::a_missing_driver_is_told(),
            id => panic!("row {id} is not understood: {row:?}"),
        }
        passed += 1;
    }
    println!("{passed} rows of visibility-cases.tsv (prog) passed, {elsewhere} belong elsewhere");
    assert_eq!(
        (passed, elsewhere),
        (13, 1),
        "a row was added or lost: say what it means here"
    );
}

fn visible(mask: Option<&str>, fixture: &str) -> VisibleDevices {
    VisibleDevices::resolve(mask, None, &inventory(fixture))
}

fn physical(visible: &VisibleDevices) -> Vec<u32> {
    visible
        .devices()
        .iter()
        .map(|device| device.physical.get())
        .collect()
}
