//! How much of a text or a list is shown. Variables, lists and inventories can hold anything; a message is one short
//! line.

use std::fmt::Display;

/// The entries of a list that are shown.
const ENTRIES: usize = 32;

/// An entry can be as long as the environment allows; a message should not be.
pub(crate) fn shortened(entry: &str) -> String {
    const SHOWN: usize = 80;
    match entry.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &entry[..end]),
        None => entry.to_owned(),
    }
}

/// The beginning and the end of a long text, without what a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    const BEGINNING: usize = 300;
    const END: usize = 100;
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let count = text.chars().count();
    if count <= BEGINNING + END {
        return text.chars().map(plain).collect();
    }
    let beginning = text.chars().take(BEGINNING);
    let end = text.chars().skip(count - END);
    beginning
        .chain(" ... ".chars())
        .chain(end)
        .map(plain)
        .collect()
}

/// The first entries, and how many more there are.
pub(crate) fn enumerated(entries: impl ExactSizeIterator<Item = impl Display>) -> String {
    let more = entries.len().saturating_sub(ENTRIES);
    let shown: Vec<String> = entries
        .take(ENTRIES)
        .map(|entry| entry.to_string())
        .collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_stays_as_it_is_and_a_long_one_keeps_both_ends() {
        assert_eq!(one_line("expected `,` at line 1"), "expected `,` at line 1");
        let long = one_line(&format!("field {} at line 3", "\u{1b}é".repeat(1000)));
        assert!(
            long.starts_with("field ?é") && long.ends_with("at line 3"),
            "{long}"
        );
        assert_eq!(long.chars().count(), 405);
    }

    #[test]
    fn a_long_list_ends_in_a_number() {
        assert_eq!(enumerated(0..3), "0, 1, 2");
        assert!(enumerated(0..33).ends_with("31 and 1 more"));
    }
}
