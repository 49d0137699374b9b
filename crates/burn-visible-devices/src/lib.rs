//! Which GPUs a process may use, in which order, and why.
//!
//! The environment (`CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`, or ROCm's variables) or a list given in code
//! selects among the cards of the machine. This crate works out the visible list as the driver does, says what was
//! odd, and translates between the numbers of `nvidia-smi` ([`PhysicalId`]) and positions in the visible list
//! ([`Ordinal`]). It needs no GPU: with an [`Inventory`] read from JSON, everything but the live queries works
//! anywhere.
//!
//! ```
//! use burn_visible_devices::{DeviceKind, VisibleDevices};
//!
//! let visible = VisibleDevices::from_env(DeviceKind::Cuda);
//! println!("{}", visible.why());
//! for diagnostic in visible.diagnostics() {
//!     eprintln!("{diagnostic}");
//! }
//! println!("{visible}");
//! ```
//!
//! # Lenient and strict
//!
//! An environment variable is never an error by itself: the list follows the driver, and a [`Diagnostic`] stands
//! beside it for whatever the driver passes over in silence. A list given in code ([`VisibleDevices::select`],
//! [`VisibleDevices::select_str`]) is strict: the same oddities are [`VisibilityError`]s. Its numbers are positions
//! in the visible list, it needs no variable, and it works after the driver has started.
//!
//! # What the driver does
//!
//! Sources: the CUDA programming guide, section "CUDA Environment Variables", for the rules; driver 580 on one H200
//! for what the guide leaves open. The rules are:
//!
//! - Unset shows every device, set to nothing hides every device (`cuInit` answers 100).
//! - Entries are separated by commas. The first invalid one ends the list; those before it stay visible.
//! - Only then are repeats looked for: one among the valid beginning, and `cuInit` answers 101 and shows nothing.
//! - The first entry decides whether the list is one of numbers or of UUIDs. An entry of the other kind is invalid:
//!   `2,GPU-47` shows card 2 alone, where other programs read two cards. The driver was seen to do so.
//! - A number is read as C's `strtoul` does in base 10: space before it and anything behind the digits are ignored,
//!   a sign is accepted, and the low 32 bits count, so that `4294967296` is 0. A number too large for 64 bits is
//!   invalid.
//! - A UUID begins with `GPU-` or `MIG-` in capitals and without a space before it: `GPU-47, GPU-1` shows one card,
//!   where other programs read two. Its hex digits may be of either case and as few as identify a device; dashes may
//!   stand anywhere; what follows the 32nd digit is ignored.
//! - `CUDA_DEVICE_ORDER` is `FASTEST_FIRST` (also when unset) or `PCI_BUS_ID`; any other value, even an empty one,
//!   and `cuInit` answers 101.
//! - A mask of more than 2624 bytes and an order of more than 1023 count as unset.
//!
//! Physical ids are in PCI order whatever `CUDA_DEVICE_ORDER` says. How the driver ranks unequal cards for
//! `FASTEST_FIRST` is not documented; cores times clock stands in for it, and with the feature `cuda`
//! `VisibleDevices::check_against_driver` compares the result with the driver's list.
//!
//! # MIG
//!
//! A process can use one MIG device, which hides all other devices. Numbers count whole cards first and MIG devices
//! after them; the UUID of a card in MIG mode stands for its first MIG device; of several listed MIG devices the first
//! is kept. Sources: the MIG user guide, and reports about driver 550; no card in MIG mode was at hand to try it.
//!
//! # ROCm
//!
//! `ROCR_VISIBLE_DEVICES` applies first. `HIP_VISIBLE_DEVICES`, or `CUDA_VISIBLE_DEVICES` as its alias, then counts
//! within what is left. Sources: ROCm documentation, "GPU isolation techniques" and "HIP environment variables". The
//! grammar within one variable is taken to be CUDA's; no AMD card was at hand to try it.
//!
//! # Features
//!
//! - `cuda`: asks the CUDA driver where NVML is missing, and adds `VisibleDevices::check_against_driver`.

mod balance;
mod diagnostic;
mod environment;
mod error;
mod id;
mod inventory;
mod kind;
mod library;
mod mask;
mod memory;
mod outcome;
mod peers;
mod runtime;
mod shown;
mod visible;

pub use balance::{ImbalanceWarning, Respect, imbalance};
pub use diagnostic::{Diagnostic, DiagnosticKind};
pub use environment::{Environment, Variable};
pub use error::VisibilityError;
pub use id::{Ordinal, PhysicalId};
pub use inventory::{ComputeCapability, Inventory, InventorySource, MigDevice, PhysicalDevice};
pub use kind::DeviceKind;
pub use library::find_library;
pub use memory::Memory;
pub use outcome::DriverOutcome;
pub use peers::{PeerAccess, PeerLink, peer_access};
pub use runtime::RuntimeInfo;
pub use visible::{EnvironmentSnapshot, VisibleDevice, VisibleDevices};
