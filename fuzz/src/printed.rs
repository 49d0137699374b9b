//! What is shown to people.

/// Far above what a message needs, far below what an input could hold.
const LONGEST: usize = 4096;

/// One line that a terminal shows as it stands.
pub fn check_message(text: &str) {
    assert!(!text.is_empty(), "an empty message");
    assert!(text.len() <= LONGEST, "{} bytes of message", text.len());
    check_plain(text);
    assert!(!text.contains('\n'), "a message of several lines: {text:?}");
}

/// Nothing that a terminal obeys.
pub fn check_plain(text: &str) {
    let odd = text.chars().find(|c| c.is_control() && *c != '\n');
    assert!(odd.is_none(), "{odd:?} in {text:?}");
}
