//! Every `env` row of `tests/data/visibility-cases.tsv`: the visible list, the diagnostics, and the same kinds as
//! errors of a list given in code.
//!
//! Two rows are contested between programs; the driver decides (see `recorded_driver.rs`): 39, a UUID in a list of
//! numbers ends the list, and 40, a space before a UUID ends the list. Row 54, an unknown order, is one of
//! `driver-answers.tsv`: the driver does not start.

mod support;

use burn_visible_devices::{DiagnosticKind, Inventory, VisibleDevices};
use support::{inventory, quoted, rows};

struct Case {
    id: String,
    masks: Vec<Option<String>>,
    orders: Vec<Option<String>>,
    inventory: Inventory,
    visible: Vec<String>,
    /// Accepted outcomes: no diagnostic, or one of this kind at this position.
    strict: Vec<Option<(String, Option<usize>)>>,
}

#[test]
fn every_row_holds() {
    let mut passed = 0;
    for row in rows("visibility-cases.tsv")
        .iter()
        .filter(|row| row[0] == "env")
    {
        check(&read(row));
        passed += 1;
    }
    println!("{passed} rows of visibility-cases.tsv (env) passed");
    assert_eq!(
        passed, 42,
        "a row was added or lost: say what it means here"
    );
}

fn check(case: &Case) {
    for mask in &case.masks {
        for order in &case.orders {
            let visible =
                VisibleDevices::resolve(mask.as_deref(), order.as_deref(), &case.inventory);
            let context = format!("row {}, {mask:?}, {order:?}: {visible:?}", case.id);
            assert_eq!(labels(&visible), case.visible, "{context}");
            check_diagnostics(case, &visible, &context);
            if let (Some(mask), false) = (mask, has_mig(&case.inventory)) {
                check_strict(case, mask, &context);
            }
        }
    }
}

/// Physical ids, or the UUIDs of MIG devices as far as the fixtures' names go (`MIG-3456`).
fn labels(visible: &VisibleDevices) -> Vec<String> {
    let label = |device: &burn_visible_devices::VisibleDevice| match device.mig {
        Some(_) => device.uuid[..8].to_owned(),
        None => device.physical.to_string(),
    };
    visible.devices().iter().map(label).collect()
}

fn check_diagnostics(case: &Case, visible: &VisibleDevices, context: &str) {
    let found: Vec<_> = visible
        .diagnostics()
        .iter()
        .map(|odd| (odd.kind.to_string(), odd.position))
        .collect();
    let accepted = case.strict.iter().any(|accepted| match accepted {
        None => found.is_empty(),
        Some((kind, None)) => found.iter().any(|(found, _)| found == kind),
        Some((kind, position)) => found.contains(&(kind.clone(), *position)),
    });
    assert!(accepted, "expected one of {:?}; {context}", case.strict);
}

fn check_strict(case: &Case, mask: &str, context: &str) {
    let all = VisibleDevices::resolve(None, Some("PCI_BUS_ID"), &case.inventory);
    let kind = match all.select_str(mask) {
        Ok(_) => None,
        Err(error) => Some(
            error
                .kind()
                .unwrap_or_else(|| panic!("{error}; {context}"))
                .to_string(),
        ),
    };
    let accepted = case
        .strict
        .iter()
        .any(|accepted| accepted.as_ref().map(|(kind, _)| kind) == kind.as_ref());
    assert!(
        accepted || case.id == "54",
        "select_str: {kind:?}, expected {:?}; {context}",
        case.strict
    );
}

fn has_mig(inventory: &Inventory) -> bool {
    inventory
        .devices()
        .iter()
        .any(|device| !device.mig.is_empty())
}

fn read(row: &[String]) -> Case {
    let [_, id, spec, gpus, order, visible, strict, _source] = row else {
        panic!("not eight columns: {row:?}")
    };
    Case {
        id: id.clone(),
        masks: read_masks(id, spec),
        orders: read_orders(id, order, spec),
        inventory: inventory(fixture(gpus)),
        visible: read_visible(id, visible),
        strict: strict.split(" or ").map(read_strict).collect(),
    }
}

fn read_masks(id: &str, spec: &str) -> Vec<Option<String>> {
    match spec {
        "None" => vec![None],
        _ if id == "54" => vec![None, Some("0".to_owned())],
        _ => {
            let masks = quoted(spec);
            assert!(!masks.is_empty(), "row {id}: no mask in {spec}");
            masks.into_iter().map(Some).collect()
        }
    }
}

fn read_orders(id: &str, order: &str, spec: &str) -> Vec<Option<String>> {
    match order {
        "any" => vec![
            None,
            Some("FASTEST_FIRST".to_owned()),
            Some("PCI_BUS_ID".to_owned()),
        ],
        "FASTEST_FIRST" => vec![None, Some(order.to_owned())],
        "PCI_BUS_ID" => vec![Some(order.to_owned())],
        "-" if id == "54" => quoted(spec).into_iter().map(Some).collect(),
        _ => panic!("row {id}: order {order} is not understood"),
    }
}

fn fixture(gpus: &str) -> &str {
    match gpus {
        "one GPU, 2 children a,b" => "MIG-two-children",
        "that GPU, gi1 ci2" => "MIG-instances",
        "[G1234, G3456 MIG{m3456}]" => "MIG-beside-whole",
        "[G3456 MIG, G1234]" => "MIG-before-whole",
        "[G3456 MIG{m3456}]" => "MIG-alone",
        named => named,
    }
}

fn read_visible(id: &str, visible: &str) -> Vec<String> {
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    if visible.starts_with("none") {
        return Vec::new();
    }
    match (id, visible) {
        (_, text) if text.chars().all(|c| c.is_ascii_digit() || c == ',') => list(text),
        ("39", text) if text.starts_with("CONTESTED: PT,nvitop 2;") => list("2"),
        ("40", text) if text.starts_with("CONTESTED: PT 5;") => list("5"),
        ("42", text) if text.starts_with("exactly one device") => list("MIG-a000"),
        ("43", "(gpu,1,2)") => list("MIG-e000"),
        ("44" | "48" | "49", text) if text.starts_with("m3456") => list("MIG-3456"),
        ("45", "G1234") => list("1"),
        ("47", "m7890") => list("MIG-7890"),
        ("50", "4090,3090 (NVML 1,0)") => list("1,0"),
        ("51", "3090 (NVML 0)") => list("0"),
        ("52", "the 3090 at nvidia-smi 1") => list("1"),
        ("54", "unknown") => Vec::new(),
        _ => panic!("row {id}: visible {visible:?} is not understood"),
    }
}

fn read_strict(text: &str) -> Option<(String, Option<usize>)> {
    let text = text.strip_suffix(" diag").unwrap_or(text);
    let text = text.split(" (").next().unwrap_or(text);
    if text == "ok" {
        return None;
    }
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (kind, rest) = text.split_at(end);
    // Of two positions, as in `Duplicate(0@0,@4)`, the last is the entry's own.
    let position = rest.rsplit_once('@').map(|(_, rest)| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end]
            .parse()
            .unwrap_or_else(|_| panic!("{text}: no position"))
    });
    Some((kind.to_owned(), position))
}

#[test]
fn details_that_the_table_names() {
    let ambiguous =
        VisibleDevices::resolve(Some("GPU-9e8d35e3,GPU-e,GPU-47"), None, &inventory("U8"));
    let candidates: Vec<u32> = ambiguous.diagnostics()[0]
        .candidates
        .iter()
        .map(|id| id.get())
        .collect();
    assert_eq!(candidates, [2, 3, 6]);

    let repeated = VisibleDevices::resolve(Some("0,1,2,3,0"), None, &inventory("P8"));
    let repeat = &repeated.diagnostics()[0];
    assert_eq!(
        (repeat.kind, repeat.first_position, repeat.position),
        (DiagnosticKind::Duplicate, Some(0), Some(4))
    );

    let quotes = VisibleDevices::resolve(Some("\"0,1\""), None, &inventory("P2"));
    assert!(quotes.diagnostics()[0].message.contains("quotes"));
}
