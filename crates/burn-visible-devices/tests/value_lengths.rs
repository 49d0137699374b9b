//! A value that is longer than the driver reads counts as unset: seen on driver 580, to the byte.

mod support;

use burn_visible_devices::{DiagnosticKind, DriverOutcome, VisibleDevices};
use support::inventory;

#[test]
fn a_mask_is_read_up_to_2624_bytes() {
    let answer =
        |length: usize| VisibleDevices::resolve(Some(&"9".repeat(length)), None, &inventory("P2"));
    assert_eq!(answer(2624).outcome(), &DriverOutcome::NoDevice);
    let ignored = answer(2625);
    assert_eq!(ignored.outcome(), &DriverOutcome::Ready { count: 2 });
    assert_eq!(ignored.diagnostics()[0].kind, DiagnosticKind::TooLong);
    assert!(ignored.why().len() < 300, "{}", ignored.why());
}

#[test]
fn an_order_is_read_up_to_1023_bytes() {
    let answer =
        |length: usize| VisibleDevices::resolve(None, Some(&"x".repeat(length)), &inventory("P2"));
    assert_eq!(answer(1023).outcome(), &DriverOutcome::InvalidDevice);
    let ignored = answer(1024);
    assert_eq!(ignored.outcome(), &DriverOutcome::Ready { count: 2 });
    assert_eq!(ignored.diagnostics()[0].kind, DiagnosticKind::TooLong);
}
