//! Reading the tables and inventories that the tests share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use burn_visible_devices::Inventory;
use std::path::PathBuf;

/// The folder with the tables and inventories.
pub fn data() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data"))
}

/// An inventory by the name of its file.
pub fn inventory(name: &str) -> Inventory {
    let path = data().join("inventories").join(format!("{name}.json"));
    Inventory::from_path(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The rows of a table, split at tabs, without comments.
pub fn rows(table: &str) -> Vec<Vec<String>> {
    let path = data().join(table);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// The quoted strings of a text, with the escapes that JSON knows.
pub fn quoted(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        rest = &rest[start..];
        let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let string = strings
            .next()
            .unwrap_or_else(|| panic!("{text}: no string"));
        found.push(string.unwrap_or_else(|error| panic!("{text}: {error}")));
        let end = strings.byte_offset();
        rest = &rest[end..];
    }
    found
}
