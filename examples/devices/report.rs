//! The devices of this machine, and what runs them.

use crate::backends;
use crate::problem::Problem;
use burn_visible_devices::{
    DeviceKind, Diagnostic, ImbalanceWarning, Memory, RuntimeInfo, VisibleDevices, imbalance,
};
use serde::Serialize;
use std::fmt::Write;

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    visible: &'a VisibleDevices,
    inventory: &'a burn_visible_devices::Inventory,
    backends: Vec<&'static str>,
    runtime: RuntimeInfo,
    imbalance: Option<ImbalanceWarning>,
    memory: Vec<Memory>,
    driver_check: Option<Vec<Diagnostic>>,
}

/// The report, as text for people or as JSON.
pub fn of_this_machine(kind: DeviceKind, json: bool) -> Result<String, Problem> {
    let visible = VisibleDevices::from_env(kind);
    let report = Report {
        inventory: visible.inventory(),
        backends: backends::compiled_in(),
        runtime: RuntimeInfo::of(&visible),
        imbalance: imbalance(visible.devices()),
        memory: memory(&visible),
        driver_check: driver_check(&visible),
        visible: &visible,
    };
    if json {
        Ok(serde_json::to_string_pretty(&report)?)
    } else {
        Ok(text(&report))
    }
}

/// By ordinal; empty when it cannot be read.
fn memory(visible: &VisibleDevices) -> Vec<Memory> {
    let ordinals = visible.devices().iter().map(|device| device.ordinal);
    ordinals
        .map_while(|ordinal| visible.memory(ordinal).ok())
        .collect()
}

/// Where the driver's own list differs; nothing when the driver was not asked.
#[cfg(feature = "cuda")]
fn driver_check(visible: &VisibleDevices) -> Option<Vec<Diagnostic>> {
    let cuda = visible.kind() == DeviceKind::Cuda;
    cuda.then(|| visible.check_against_driver().ok()).flatten()
}

#[cfg(not(feature = "cuda"))]
fn driver_check(_visible: &VisibleDevices) -> Option<Vec<Diagnostic>> {
    None
}

/// The part that a report shares with the explanation of a mask.
pub fn mapping(visible: &VisibleDevices) -> String {
    let mut text = format!("{visible}\nwhy: {}\n", visible.why());
    for diagnostic in visible.diagnostics() {
        text.push_str(&format!("note: {diagnostic}\n"));
    }
    text
}

fn text(report: &Report<'_>) -> String {
    let known =
        |version: &Option<String>| version.clone().unwrap_or_else(|| "not found".to_owned());
    let mut text = mapping(report.visible);
    if let Some(warning) = &report.imbalance {
        text.push_str(&format!("note: {warning}\n"));
    }
    for diagnostic in report.driver_check.iter().flatten() {
        text.push_str(&format!("note: {diagnostic}\n"));
    }
    let agrees = match report.driver_check.as_deref() {
        None => "not asked",
        Some([]) => "shows the same devices",
        Some(_) => "differs, see the note",
    };
    for (device, memory) in report.visible.devices().iter().zip(&report.memory) {
        let (free, total) = (memory.free >> 20, memory.total >> 20);
        text.push_str(&format!(
            "memory of {}: {free} of {total} MiB free\n",
            device.ordinal
        ));
    }
    let nccl = match &report.runtime.nccl {
        Some(path) => path.display().to_string(),
        None => "not found: copies between devices go through the host".to_owned(),
    };
    let peers = match report.runtime.peers.len() {
        0 => "needs two devices".to_owned(),
        _ => report
            .runtime
            .peers
            .iter()
            .fold(String::new(), |mut lines, link| {
                // Writing to a String cannot fail.
                let _ = write!(lines, "\n  {} -> {}: {}", link.from, link.to, link.access);
                lines
            }),
    };
    text.push_str(&format!(
        "backends: {}\ndriver: {} (CUDA {}), {agrees}\nNCCL: {nccl}\npeer access: {peers}",
        report.backends.join(", "),
        known(&report.runtime.driver_version),
        known(&report.runtime.cuda_version),
    ));
    text
}
