//! Which devices replicas run on, and why.

use burn::tensor::Device;
use burn_dp::DeviceIds;
#[cfg(feature = "cuda")]
use burn_dp::visible::{DeviceKind, VisibleDevices};

use crate::arguments::{Arguments, Backend};
use crate::problem::Problem;

/// Replicas on the CPU where nothing else is asked for: enough to be data-parallel, on two cores too.
const CPU_REPLICAS: usize = 2;

/// Where the model is made, which devices it is spread over, and what to tell the user.
pub struct Chosen {
    pub device: Device,
    pub ids: DeviceIds,
    pub reason: String,
    pub table: String,
}

pub fn choose(arguments: &Arguments) -> Result<Chosen, Problem> {
    match (arguments.backend, arguments.replicas) {
        (Backend::Cuda, Some(_)) => Err(Problem::Usage(
            "--replicas repeats the CPU, so it does not go with --backend cuda; use --device-ids"
                .into(),
        )),
        (_, Some(replicas)) => Ok(cpu(
            usize::from(replicas),
            format!("the CPU, {replicas} times, as --replicas asks"),
        )),
        (Backend::Cpu, None) => cpu_by_ids(arguments, "the CPU, as --backend asks".into()),
        (Backend::Auto | Backend::Cuda, None) => gpus(arguments),
    }
}

fn cpu(replicas: usize, reason: String) -> Chosen {
    let lines: Vec<String> = (0..replicas)
        .map(|replica| {
            let mark = if replica == 0 { " (primary)" } else { "" };
            format!("  replica {replica} -> CPU (flex){mark}")
        })
        .collect();
    Chosen {
        device: Device::flex(),
        ids: DeviceIds::repeat(0, replicas),
        reason,
        table: lines.join("\n"),
    }
}

fn cpu_by_ids(arguments: &Arguments, reason: String) -> Result<Chosen, Problem> {
    if arguments.visible.is_some() {
        return Err(Problem::Usage(
            "--visible chooses among GPUs, and the CPU was asked for; leave one of the two out"
                .into(),
        ));
    }
    Ok(match &arguments.device_ids {
        None => cpu(CPU_REPLICAS, format!("{reason}: {CPU_REPLICAS} replicas")),
        Some(ids) => Chosen {
            ids: ids.clone().into(),
            ..cpu(ids.len().max(1), format!("{reason}: ids {ids:?}"))
        },
    })
}

#[cfg(not(feature = "cuda"))]
fn gpus(arguments: &Arguments) -> Result<Chosen, Problem> {
    const REMEDY: &str = "this binary has no GPU backend: build it with --features cuda";
    if arguments.backend == Backend::Cuda || arguments.visible.is_some() {
        return Err(Problem::Usage(REMEDY.into()));
    }
    cpu_by_ids(
        arguments,
        "the CPU: built without a GPU backend (--features cuda adds it)".into(),
    )
}

#[cfg(feature = "cuda")]
fn gpus(arguments: &Arguments) -> Result<Chosen, Problem> {
    let found = VisibleDevices::from_env(DeviceKind::Cuda);
    let asked = arguments.device_ids.is_some() || arguments.visible.is_some();
    if !found.is_available() && arguments.backend == Backend::Auto && !asked {
        return cpu_by_ids(
            arguments,
            format!(
                "the CPU: no GPU is visible ({}; {})",
                found.why(),
                found.outcome()
            ),
        );
    }
    for odd in found.diagnostics() {
        eprintln!("warning: {}", odd.message);
    }
    let mut visible = match &arguments.visible {
        Some(list) => found.select_str(list)?,
        None => found,
    };
    if let Some(ids) = &arguments.device_ids {
        let ordinals = ids.iter().map(|&id| u32::try_from(id).unwrap_or(u32::MAX));
        visible = visible.select(ordinals)?;
    }
    let first = visible.devices().first().ok_or_else(|| {
        Problem::Data(format!(
            "no GPU is visible ({}; {}); use --backend cpu to train on the CPU",
            visible.why(),
            visible.outcome()
        ))
    })?;
    Ok(Chosen {
        device: Device::cuda(first.driver_ordinal),
        reason: visible.why().to_string(),
        table: visible.to_string(),
        ids: visible.into(),
    })
}
