//! Any file as the table of digits.

use crate::format::digits::{SIDE, read};
use crate::printed;

/// A table, gzipped or not.
pub fn digits(bytes: &[u8]) {
    match read(bytes) {
        Ok(samples) => {
            for sample in &samples {
                assert_eq!(sample.pixels.len(), SIDE * SIDE);
                assert!(sample.label < 10);
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
