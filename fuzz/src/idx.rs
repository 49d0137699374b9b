//! Any two files as images and labels: samples that fit, or an error in a few words, within bounded memory.

use crate::format::idx::part;
use crate::printed;

/// Small, so that the fuzzer's own limit of memory tells a reader that follows the header from one that does not.
const MOST: u64 = 1 << 16;

/// The length of the first file as two bytes, the first file, the second file.
pub fn idx(bytes: &[u8]) {
    let Some((length, files)) = bytes.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes(*length)).min(files.len());
    let (images, labels) = files.split_at(length);
    match part(images, labels, MOST) {
        Ok(part) => {
            assert!(!part.samples.is_empty());
            let pixels = part.height * part.width;
            assert!(pixels * part.samples.len() <= MOST as usize);
            if !images.starts_with(&[0x1f, 0x8b]) {
                assert_eq!(images.len(), 16 + pixels * part.samples.len());
            }
            if !labels.starts_with(&[0x1f, 0x8b]) {
                assert_eq!(labels.len(), 8 + part.samples.len());
            }
            for sample in &part.samples {
                assert_eq!(sample.pixels.len(), pixels);
                assert!(
                    sample
                        .pixels
                        .iter()
                        .all(|pixel| (0.0..=1.0).contains(pixel))
                );
            }
        }
        Err(error) => printed::check_message(&error.to_string()),
    }
}
