//! Every row of `tests/data/driver-answers.tsv`, on one card as there.

mod support;

use burn_visible_devices::{
    DiagnosticKind, DriverOutcome, Environment, EnvironmentSnapshot, Inventory, VisibleDevices,
};
use support::{inventory, quoted, rows};

#[test]
fn every_row_holds() {
    let card = inventory("P1");
    let mut passed = 0;
    for row in rows("driver-answers.tsv") {
        let [asked, answer] = &row[..] else {
            panic!("not two columns: {row:?}")
        };
        if asked == "variable set in the process before cuInit / after cuInit" {
            assert_eq!(answer, "honoured / ignored");
            honoured_before_and_ignored_after(&card);
        } else {
            let expected = read_answer(answer);
            for (mask, order) in read_asked(asked, &card.devices()[0].uuid) {
                let visible = VisibleDevices::resolve(mask.as_deref(), order.as_deref(), &card);
                assert_eq!(*visible.outcome(), expected, "{asked}: {mask:?} {order:?}");
            }
        }
        passed += 1;
    }
    println!("{passed} rows of driver-answers.tsv passed");
    assert_eq!(
        passed, 21,
        "a row was added or lost: say what it means here"
    );
}

fn read_answer(answer: &str) -> DriverOutcome {
    let words = answer.strip_prefix("cuInit ").unwrap_or(answer);
    let first = words.split([' ', ':']).next().unwrap_or_default();
    match first {
        "count" if words.starts_with("count 1") => DriverOutcome::Ready { count: 1 },
        "100" => DriverOutcome::NoDevice,
        "101" => DriverOutcome::InvalidDevice,
        _ => panic!("answer {answer:?} is not understood"),
    }
}

type Asked = (Option<String>, Option<String>);

fn read_asked(asked: &str, uuid: &str) -> Vec<Asked> {
    let upper = format!("GPU-{}", uuid[4..].to_uppercase());
    let masks = match asked {
        "whole UUID, also with upper-case hex digits" => vec![uuid.to_owned(), upper],
        "whole UUID followed by x" => vec![format!("{uuid}x")],
        "UUID with lower-case gpu-" => vec![uuid.replace("GPU-", "gpu-")],
        "UUID prefix of 4 hex digits" => vec![uuid[..8].to_owned()],
        "space before a UUID" => vec![format!(" {uuid}")],
        "CUDA_DEVICE_ORDER \"pci\" or empty" => {
            return ["pci", ""]
                .map(|order| (None, Some(order.to_owned())))
                .to_vec();
        }
        _ => {
            let mut masks = quoted(asked);
            assert!(!masks.is_empty(), "{asked:?} is not understood");
            masks
                .iter_mut()
                .for_each(|mask| *mask = mask.replace("GPU-a", uuid));
            masks.extend(
                asked
                    .contains("full-width zero")
                    .then(|| "\u{ff10}".to_owned()),
            );
            masks
        }
    };
    masks.into_iter().map(|mask| (Some(mask), None)).collect()
}

fn honoured_before_and_ignored_after(card: &Inventory) {
    let snapshot = EnvironmentSnapshot::new();
    let before = snapshot.visible(&Environment::cuda(Some("0"), None), || card.clone());
    assert_eq!(before.device_count(), 1);
    let after = snapshot.visible(&Environment::cuda(Some(""), None), || card.clone());
    assert_eq!(after.device_count(), 1);
    assert_eq!(
        after.diagnostics()[0].kind,
        DiagnosticKind::AlreadyInitialized
    );
}
