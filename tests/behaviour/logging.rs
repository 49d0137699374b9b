//! The log tells at construction which devices are used, and why.

use std::sync::{Mutex, Once, PoisonError};

use burn_dp::{DataParallel, DeviceIds};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::models::{Mlp, device};

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Collect;

impl Log for Collect {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.target().starts_with("burn_data_parallel") {
            let line = (record.level(), record.args().to_string());
            LINES
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    }

    fn flush(&self) {}
}

#[test]
fn construction_says_which_devices_and_why() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Collect).expect("no other test sets a logger");
        log::set_max_level(LevelFilter::Info);
    });
    let replicas = 7; // no other test logs this line
    DataParallel::new(Mlp::new(&device()), DeviceIds::repeat(0, replicas)).expect("it wraps");
    DataParallel::new(Mlp::new(&device()), DeviceIds::devices([device()])).expect("it wraps");
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let says = |parts: &[&str]| {
        lines.iter().any(|(level, line)| {
            *level == Level::Info && parts.iter().all(|part| line.contains(part))
        })
    };
    assert!(
        says(&["7 devices", "replica 6 Flex", "all that the backend"]),
        "{lines:?}"
    );
    assert!(says(&["one device", "given in code"]), "{lines:?}");
}
