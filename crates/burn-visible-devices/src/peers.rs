//! Which devices can read each other's memory, as far as NVML knows.

use crate::inventory::nvml;
use crate::{DeviceKind, Ordinal, VisibleDevice, VisibleDevices};
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};
use nvml_wrapper::{Device, Nvml};
use serde::Serialize;
use std::fmt;

/// Whether one device can read another's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "access", rename_all = "lowercase")]
#[non_exhaustive]
pub enum PeerAccess {
    /// It can; over NVLink or over PCI.
    Direct {
        /// Whether the way is NVLink.
        nvlink: bool,
    },
    /// It cannot: copies go through the host.
    None {
        /// What NVML gives as the reason.
        reason: String,
    },
    /// It cannot be known.
    Unknown {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for PeerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { nvlink: true } => write!(f, "direct, over NVLink"),
            Self::Direct { nvlink: false } => write!(f, "direct, over PCI"),
            Self::None { reason } => write!(f, "none: {reason}"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

/// The access that one device has to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeerLink {
    /// The device that reads.
    pub from: Ordinal,
    /// The device that is read.
    pub to: Ordinal,
    /// Whether it can.
    #[serde(flatten)]
    pub access: PeerAccess,
}

/// The access for every ordered pair of visible devices.
///
/// NVML is asked; no context is created. A host may break peer access without NVML knowing, so this is no proof that
/// copies arrive intact.
pub fn peer_access(visible: &VisibleDevices) -> Vec<PeerLink> {
    let devices = visible.devices();
    let pairs = devices
        .iter()
        .flat_map(|from| devices.iter().map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from.ordinal != to.ordinal)
        .map(|(from, to)| PeerLink {
            from: from.ordinal,
            to: to.ordinal,
            access: ask(visible.kind(), from, to),
        })
        .collect()
}

fn ask(kind: DeviceKind, from: &VisibleDevice, to: &VisibleDevice) -> PeerAccess {
    let unknown = |reason: String| PeerAccess::Unknown { reason };
    if kind != DeviceKind::Cuda {
        return unknown(format!("not asked for {kind}"));
    }
    let pair = |library: &'static Nvml| -> Result<(Device<'static>, Device<'static>), String> {
        let card = |uuid: &str| {
            library
                .device_by_uuid(uuid)
                .map_err(|error| error.to_string())
        };
        Ok((card(&from.uuid)?, card(&to.uuid)?))
    };
    match nvml::library().and_then(pair) {
        Ok((from, to)) => status(&from, &to),
        Err(reason) => unknown(format!("NVML: {reason}")),
    }
}

fn status(from: &Device<'_>, to: &Device<'_>) -> PeerAccess {
    let is_ok = |index| {
        from.p2p_status(to, index)
            .is_ok_and(|status| status == P2pStatus::Ok)
    };
    match from.p2p_status(to, P2pCapabilitiesIndex::Read) {
        Ok(P2pStatus::Ok) => PeerAccess::Direct {
            nvlink: is_ok(P2pCapabilitiesIndex::NvLink),
        },
        Ok(P2pStatus::Unknown) => PeerAccess::Unknown {
            reason: "NVML does not know".to_owned(),
        },
        Ok(other) => PeerAccess::None {
            reason: format!("{other:?}"),
        },
        Err(error) => PeerAccess::Unknown {
            reason: format!("NVML: {error}"),
        },
    }
}
