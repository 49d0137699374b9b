//! The variables, read once and kept beside their names.

use crate::DeviceKind;
use serde::Serialize;
use std::ffi::OsStr;

/// One variable's name and the value it had, if any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Variable {
    /// The variable's name.
    pub name: String,
    /// Its value; `None` when it is not set.
    pub value: Option<String>,
}

/// The values of the variables that decide what is visible.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{DeviceKind, Environment};
///
/// let lookup = |name: &str| (name == "HIP_VISIBLE_DEVICES").then(|| "0,1".to_owned());
/// let environment = Environment::from_lookup(DeviceKind::Rocm, lookup);
/// assert_eq!(environment.masks()[0].value, None); // ROCR_VISIBLE_DEVICES
/// assert_eq!(environment.masks()[1].value.as_deref(), Some("0,1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Environment {
    kind: DeviceKind,
    masks: Vec<Variable>,
    order: Option<Variable>,
}

impl Environment {
    /// The variables of this process. Each byte that is no UTF-8 becomes a question mark, which means as little to the
    /// driver.
    pub fn of_process(kind: DeviceKind) -> Self {
        Self::from_lookup(kind, |name| {
            std::env::var_os(name).map(|value| text(&value))
        })
    }

    /// The variables as `lookup` gives them: a way to try an environment without changing one.
    pub fn from_lookup(kind: DeviceKind, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let masks = kind
            .mask_variables()
            .iter()
            .map(|group| first_set(group, &lookup))
            .collect();
        let order = kind
            .order_variable()
            .map(|name| first_set(&[name], &lookup));
        Self { kind, masks, order }
    }

    /// A CUDA environment with these two values; `None` is a variable that is not set.
    pub fn cuda(mask: Option<&str>, order: Option<&str>) -> Self {
        Self::from_lookup(DeviceKind::Cuda, |name| {
            let value = if name == "CUDA_DEVICE_ORDER" {
                order
            } else {
                mask
            };
            value.map(str::to_owned)
        })
    }

    /// The runtime whose variables these are.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// The masks, in the order in which they apply.
    pub fn masks(&self) -> &[Variable] {
        &self.masks
    }

    /// The variable that sets the order of the cards, where the runtime has one.
    pub fn order(&self) -> Option<&Variable> {
        self.order.as_ref()
    }
}

/// As many bytes as the value has, since the driver ignores one that is too long.
fn text(value: &OsStr) -> String {
    let chunks = value.as_encoded_bytes().utf8_chunks();
    chunks
        .flat_map(|chunk| {
            let replaced = std::iter::repeat_n('?', chunk.invalid().len());
            chunk.valid().chars().chain(replaced)
        })
        .collect()
}

/// The first variable of the group that is set, or the group's first one as unset.
fn first_set(group: &[&str], lookup: &impl Fn(&str) -> Option<String>) -> Variable {
    let found = group
        .iter()
        .find_map(|name| lookup(name).map(|value| (*name, value)));
    match found {
        Some((name, value)) => Variable {
            name: name.to_owned(),
            value: Some(value),
        },
        None => Variable {
            name: group.first().copied().unwrap_or_default().to_owned(),
            value: None,
        },
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn bytes_that_are_no_text_keep_the_length_that_the_driver_counts() {
        for (bytes, expected) in [
            (&b"0,\xff\xfe,1"[..], "0,??,1"),
            (b"\xf0\x9f\x98", "???"),
            ("GPU-\u{e9}".as_bytes(), "GPU-\u{e9}"),
            (b"", ""),
        ] {
            assert_eq!(text(OsStr::from_bytes(bytes)), expected);
        }
        // 2000 bytes are read by the driver; as U+FFFD they would be 6000, which it does not read.
        assert_eq!(text(OsStr::from_bytes(&[0x80; 2000])).len(), 2000);
    }
}
