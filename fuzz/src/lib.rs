//! What must hold for any bytes, one function a fuzz target. They panic where it does not.

mod cards;
mod digits;
#[allow(dead_code, reason = "the example uses all of it")]
#[path = "../../examples/mnist_dp/dataset/format/mod.rs"]
mod format;
mod idx;
mod inventory;
mod list;
mod mask;
mod printed;

pub use cards::FIXTURES;
pub use digits::digits;
pub use idx::idx;
pub use inventory::inventory;
pub use mask::mask;
