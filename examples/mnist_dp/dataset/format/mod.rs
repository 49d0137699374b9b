//! The formats of the data, from bytes to samples. Nothing here needs Burn, so that any bytes can be tried on it
//! (`fuzz/`).

mod bounded;
pub mod digits;
pub mod idx;

/// One grey image, values 0 to 1, row by row, and its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub pixels: Vec<f32>,
    pub label: u8,
}
