//! A number as the driver reads it: C's `strtoul` in base 10, of which the low 32 bits count.

/// What the driver makes of an entry that begins like a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number<'a> {
    /// The index, as a 32-bit signed number.
    pub(super) index: i32,
    /// `+`, `-` or none.
    pub(super) sign: Option<char>,
    /// Whether the number written is another one than the index.
    pub(super) wrapped: bool,
    /// What follows the digits, without the space around it.
    pub(super) rest: &'a str,
}

/// `None` when no digit follows the space and the sign.
pub(super) fn parse(entry: &str) -> Option<Number<'_>> {
    let text = entry.trim_start_matches(is_c_space);
    let sign = text.chars().next().filter(|c| matches!(c, '+' | '-'));
    let text = if sign.is_some() { &text[1..] } else { text };
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return None;
    }
    // `strtoul` answers its largest value on overflow, whatever the sign, and negates in unsigned arithmetic.
    let magnitude = digits.parse::<u64>().ok();
    let value = match (magnitude, sign) {
        (None, _) => u64::MAX,
        (Some(magnitude), Some('-')) => magnitude.wrapping_neg(),
        (Some(magnitude), _) => magnitude,
    };
    let index = value as u32 as i32; // the low 32 bits, as the driver takes them
    let written = magnitude.and_then(|magnitude| {
        i128::from(magnitude).checked_mul(if sign == Some('-') { -1 } else { 1 })
    });
    let wrapped = written != Some(i128::from(index));
    Some(Number {
        index,
        sign,
        wrapped,
        rest: rest.trim_matches(is_c_space),
    })
}

/// Space in C's own locale, which is all that the driver skips.
pub(super) fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entry: &str) -> Option<i32> {
        parse(entry).map(|number| number.index)
    }

    #[test]
    fn reads_what_strtoul_reads() {
        for (entry, expected) in [
            ("0", Some(0)),
            (" \t12 ", Some(12)),
            ("010", Some(10)),
            ("0x1", Some(0)),
            ("+3", Some(3)),
            ("-1", Some(-1)),
            ("4294967296", Some(0)),
            ("4294967295", Some(-1)),
            ("-4294967296", Some(0)),
            ("9223372036854775808", Some(0)),
            ("9223372036854775807", Some(-1)),
            ("18446744069414584320", Some(0)),
            ("18446744073709551616", Some(-1)),
            ("-9223372036854775809", Some(-1)),
            ("-18446744069414584320", Some(0)),
            ("-", None),
            ("+gpu", None),
            ("+-0", None),
            ("- 0", None),
            ("", None),
            ("\u{a0}0", None),
            ("\u{ff10}", None),
        ] {
            assert_eq!(index(entry), expected, "{entry:?}");
        }
    }

    #[test]
    fn says_what_was_odd() {
        let number = parse("-4294967296 x").expect("it has digits");
        assert_eq!(
            (number.sign, number.wrapped, number.rest),
            (Some('-'), true, "x")
        );
        assert!(!parse("-1").expect("it has digits").wrapped);
    }
}
