//! The seeds pass, on any toolchain and without a fuzzer.

use std::fs;

fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = format!("{}/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = fs::read_dir(folder).expect("the seeds are there").collect();
    assert!(!files.is_empty());
    for file in files {
        run(&fs::read(file.expect("a file").path()).expect("it can be read"));
    }
}

#[test]
fn mask() {
    replay("mask", burn_dp_fuzz::mask);
}

#[test]
fn inventory() {
    replay("inventory", burn_dp_fuzz::inventory);
}

#[test]
fn idx() {
    replay("idx", burn_dp_fuzz::idx);
}

#[test]
fn digits() {
    replay("digits", burn_dp_fuzz::digits);
}
