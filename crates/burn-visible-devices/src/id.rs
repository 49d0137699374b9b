//! The two numbers a card has, as two types.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Position in the visible list: the number by which a program addresses a card.
///
/// Under `CUDA_VISIBLE_DEVICES=2,3` card 2 has ordinal 0 and card 3 ordinal 1. An ordinal is made from a `u32`
/// alone, so that `visible.select([3, 2, 0, 1])` needs no suffix.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::Ordinal;
///
/// let ordinal = Ordinal::from(2);
/// assert_eq!(ordinal.index(), 2);
/// assert_eq!(ordinal.to_string(), "2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ordinal(u32);

impl Ordinal {
    /// The ordinal with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as an index into a slice of visible devices.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u32> for Ordinal {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number that `nvidia-smi` gives a card: its place in PCI order, whatever the environment says.
///
/// There is no conversion to or from [`Ordinal`]. Only a visible list can translate, and translating twice, the
/// classic mistake under a mask, does not compile:
///
/// ```compile_fail,E0308
/// use burn_visible_devices::{Inventory, Ordinal, VisibleDevices};
///
/// # let inventory = Inventory::from_json(r#"{"devices": []}"#).unwrap();
/// let visible = VisibleDevices::resolve(Some("1,2"), None, &inventory);
/// let physical = visible.physical_of(Ordinal::from(0)).unwrap();
/// visible.physical_of(physical); // expected `Ordinal`, found `PhysicalId`
/// ```
///
/// # Examples
///
/// ```
/// use burn_visible_devices::PhysicalId;
///
/// assert_eq!(PhysicalId::from(3).get(), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhysicalId(u32);

impl PhysicalId {
    /// The id with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u32> for PhysicalId {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for PhysicalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
