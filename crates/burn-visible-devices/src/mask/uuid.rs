//! A UUID as the driver reads it: after `GPU-` or `MIG-`, hex digits of either case, dashes skipped wherever they
//! stand, and nothing looked at behind the 32nd digit.

/// The digits of a whole UUID.
const DIGITS: usize = 32;

/// An entry that begins like a UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UuidEntry<'a> {
    /// Digits that a card's UUID (`mig` false), or first of all a MIG device's (`mig` true), must begin with.
    Prefix {
        mig: bool,
        digits: String,
        rest: &'a str,
    },
    /// `MIG-GPU-<UUID>/<GPU instance>/<compute instance>`, the form of older drivers.
    Instance {
        digits: String,
        gpu_instance: u32,
        compute_instance: u32,
    },
    /// A character that is no hex digit stands where one should.
    Invalid { at: Option<char> },
}

/// Whether the driver takes the entry for a UUID. It skips no space and knows no lower case here.
pub(super) fn is_uuid(entry: &str) -> bool {
    entry.starts_with("GPU-") || entry.starts_with("MIG-")
}

pub(super) fn parse(entry: &str) -> UuidEntry<'_> {
    if let Some(instance) = entry.strip_prefix("MIG-GPU-").and_then(parse_instance) {
        return instance;
    }
    let mig = entry.starts_with("MIG-");
    let text = entry.get(4..).unwrap_or_default();
    match read_digits(text) {
        _ if text.is_empty() => UuidEntry::Invalid { at: None },
        Ok((digits, rest)) => UuidEntry::Prefix { mig, digits, rest },
        Err(at) => UuidEntry::Invalid { at: Some(at) },
    }
}

fn parse_instance(text: &str) -> Option<UuidEntry<'_>> {
    let mut parts = text.split('/');
    let (uuid, gpu, compute) = (parts.next()?, parts.next()?, parts.next()?);
    let (digits, rest) = read_digits(uuid).ok()?;
    if parts.next().is_some() || digits.is_empty() || !rest.is_empty() {
        return None;
    }
    Some(UuidEntry::Instance {
        digits,
        gpu_instance: gpu.parse().ok()?,
        compute_instance: compute.parse().ok()?,
    })
}

/// The digits in lower case and what stands behind the last possible one, or the character that is none.
fn read_digits(text: &str) -> Result<(String, &str), char> {
    let mut digits = String::new();
    for (at, c) in text.char_indices() {
        match c {
            _ if digits.len() == DIGITS => return Ok((digits, &text[at..])),
            '-' => {}
            c if c.is_ascii_hexdigit() => digits.push(c.to_ascii_lowercase()),
            other => return Err(other),
        }
    }
    Ok((digits, ""))
}

/// Whether a device's UUID (`GPU-...` or `MIG-...`) begins with these digits.
pub(super) fn begins_with(uuid: &str, digits: &str) -> bool {
    let text = uuid.get(4..).unwrap_or_default();
    let mut own = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_ascii_lowercase());
    digits.chars().all(|digit| own.next() == Some(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1";

    fn matches(entry: &str) -> bool {
        match parse(entry) {
            UuidEntry::Prefix { digits, .. } => begins_with(UUID, &digits),
            _ => false,
        }
    }

    #[test]
    fn any_beginning_matches_with_dashes_anywhere() {
        for entry in [
            UUID,
            "GPU-9",
            "GPU-9942190AAA31",
            "GPU-99-42",
            "GPU--",
            "MIG-9942",
            "GPU-9942190a-aa31-4ff1-4aa9-c388d80f85f1, x",
        ] {
            assert!(matches(entry), "{entry}");
        }
    }

    #[test]
    fn what_is_no_hex_digit_ends_it() {
        for entry in [
            "GPU-",
            "GPU-9942x",
            "GPU-9942 ",
            "GPU-GPU-9942",
            "MIG-GPU-9942",
            "GPU-8",
        ] {
            assert!(!matches(entry), "{entry}");
        }
    }

    #[test]
    fn the_older_form_names_both_instances() {
        let expected = UuidEntry::Instance {
            digits: "9942".to_owned(),
            gpu_instance: 1,
            compute_instance: 2,
        };
        assert_eq!(parse("MIG-GPU-9942/1/2"), expected);
        assert!(matches!(parse("MIG-GPU-9942/1"), UuidEntry::Invalid { .. }));
    }
}
