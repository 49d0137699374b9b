//! Files as they should be, and all that is not: a typed error, in bounded memory, and no panic.

#[path = "mod.rs"]
mod format;

use std::io::{Read, Write, repeat};

use flate2::Compression;
use flate2::write::GzEncoder;
use format::digits::{self, DigitsError};
use format::idx::{IdxError, MAX_BYTES, Part, PartError, part};
use proptest::prelude::*;

fn idx(sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    file.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    file.extend(bytes);
    file
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Two images of 4x5 and their labels.
fn valid() -> (Vec<u8>, Vec<u8>) {
    (idx(&[2, 4, 5], &[51; 40]), idx(&[2], &[3, 9]))
}

fn read(images: impl Read, labels: impl Read) -> Result<Part, PartError> {
    part(images, labels, MAX_BYTES)
}

fn of_images(images: impl Read) -> IdxError {
    match read(images, valid().1.as_slice()) {
        Err(PartError::Images(error)) => error,
        other => panic!("an error about the images was expected: {other:?}"),
    }
}

#[test]
fn images_and_labels_are_read_whether_gzipped_or_not() {
    let (images, labels) = valid();
    let plain = read(images.as_slice(), labels.as_slice()).expect("they are valid");
    assert_eq!((plain.height, plain.width, plain.samples.len()), (4, 5, 2));
    assert_eq!(plain.samples[1].label, 9);
    assert_eq!(plain.samples[1].pixels, [0.2; 20]);
    let packed = read(gzipped(&images).as_slice(), gzipped(&labels).as_slice());
    assert_eq!(packed.expect("they are valid"), plain);
}

#[test]
fn a_header_that_promises_too_much_is_refused_before_anything_is_read() {
    for sizes in [
        [u32::MAX; 3],
        [u32::MAX, 28, 28],
        [1, u32::MAX, u32::MAX],
        [1 << 31, 1 << 31, 4],
    ] {
        let error = of_images(idx(&sizes, &[0; 9]).chain(repeat(0)));
        assert!(
            matches!(
                error,
                IdxError::TooLarge {
                    most: MAX_BYTES,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_file_without_an_end_is_read_no_further_than_its_header_promises() {
    let (images, _) = valid();
    let error = of_images(images.as_slice().chain(repeat(0)));
    assert!(matches!(error, IdxError::TooLong { .. }), "{error}");
    // A gzip bomb: 64 MiB of nothing in some 64 KiB.
    let bomb = gzipped(&idx(&[2, 4, 5], &vec![0; 64 << 20]));
    let error = of_images(bomb.as_slice());
    assert!(matches!(error, IdxError::TooLong { .. }), "{error}");
}

#[test]
fn what_is_cut_off_is_refused_at_any_length() {
    let (images, labels) = valid();
    for images in [images.clone(), gzipped(&images)] {
        for end in 0..images.len() {
            let cut = read(&images[..end], labels.as_slice());
            assert!(matches!(cut, Err(PartError::Images(_))), "{end}: {cut:?}");
        }
    }
    for labels in [labels.clone(), gzipped(&labels)] {
        for end in 0..labels.len() {
            let cut = read(images.as_slice(), &labels[..end]);
            assert!(matches!(cut, Err(PartError::Labels(_))), "{end}: {cut:?}");
        }
    }
}

#[test]
fn what_does_not_suit_is_named() {
    let labels = |count: u32| idx(&[count], &vec![0; count as usize]);
    let error = read(valid().0.as_slice(), labels(3).as_slice());
    assert!(
        matches!(
            error,
            Err(PartError::Labels(IdxError::Unequal {
                labels: 3,
                images: 2
            }))
        ),
        "{error:?}"
    );
    let error = read(idx(&[0, 28, 28], &[]).as_slice(), labels(0).as_slice());
    assert!(
        matches!(error, Err(PartError::Images(IdxError::Empty))),
        "{error:?}"
    );
    for (height, width) in [(3, 28), (28, 0), (513, 4), (4, 1 << 20)] {
        let images = idx(&[2, height, width], &vec![0; 2 * (height * width) as usize]);
        let error = of_images(images.as_slice());
        assert!(matches!(error, IdxError::Size { .. }), "{error}");
    }
    let error = of_images(b"\0\0\x08\x01\0\0\0\x02\0\0\0\0\0\0\0\0".as_slice());
    assert!(matches!(error, IdxError::Magic { dims: 3, .. }), "{error}");
}

#[test]
fn the_shipped_digits_are_read() {
    let samples = digits::read(include_bytes!("../../data/digits.csv.gz").as_slice());
    assert_eq!(samples.expect("they are valid").len(), 1797);
}

#[test]
fn a_table_that_is_no_table_of_digits_is_refused() {
    let row = |pixel: &str, pixels: usize, label: &str| {
        format!("{},{label}\n", vec![pixel; pixels].join(","))
    };
    assert_eq!(
        digits::read(row("16", 64, "9").as_bytes())
            .expect("it is valid")
            .len(),
        1
    );
    for table in [row("16", 63, "9"), row("17", 64, "9"), row("0", 64, "10")] {
        let error = digits::read(table.as_bytes()).expect_err("it is not valid");
        assert!(matches!(error, DigitsError::Row { .. }), "{error}");
    }
    for table in [row("x", 64, "9"), row("-1", 64, "9"), row("256", 64, "9")] {
        let error = digits::read(table.as_bytes()).expect_err("it is not valid");
        assert!(matches!(error, DigitsError::Table(_)), "{error}");
    }
    for endless in [
        Box::new(repeat(b'0')) as Box<dyn Read>,
        Box::new(std::io::Cursor::new(gzipped(&vec![b'0'; 64 << 20]))),
    ] {
        let error = digits::read(endless).expect_err("it is too large");
        assert!(matches!(error, DigitsError::TooLarge { .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>(), sizes in any::<[u32; 3]>()) {
        let _ = read(bytes.as_slice(), bytes.as_slice());
        let _ = read(idx(&sizes, &bytes).as_slice(), idx(&sizes[..1], &bytes).as_slice());
        let _ = digits::read(bytes.as_slice());
    }

    #[test]
    fn any_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let (images, labels) = valid();
        for file in [images, gzipped(&valid().0)] {
            let mut changed = file;
            let at = at.index(changed.len());
            changed[at] = value;
            if let Ok(part) = read(changed.as_slice(), labels.as_slice()) {
                prop_assert_eq!(part.samples.len(), 2);
            }
        }
    }
}
