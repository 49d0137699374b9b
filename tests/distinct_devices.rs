//! The core behaviours on distinct devices.
