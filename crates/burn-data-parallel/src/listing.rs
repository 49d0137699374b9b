//! The devices of one backend, in the order of their ordinals.

use burn::tensor::{Device, DeviceType};
use burn_visible_devices::{DeviceKind, VisibilityError, VisibleDevices, find_library, imbalance};

use crate::device_ids::Resolved;
use crate::error::DataParallelError;
use crate::inspect::describe;

/// What ordinals mean on the model's backend.
pub(crate) struct Listing {
    pub(crate) devices: Vec<Device>,
    visible: Option<VisibleDevices>,
    reason: String,
}

impl Listing {
    /// List the devices of the backend that `device` belongs to.
    pub(crate) fn of(
        device: &Device,
        visible: Option<&VisibleDevices>,
    ) -> Result<Self, DataParallelError> {
        let (kind, devices) = device_types()
            .into_iter()
            .map(|kind| (kind.clone(), Device::enumerate(kind)))
            .find(|(_, devices)| devices.iter().any(|other| other == device))
            .ok_or_else(|| DataParallelError::CannotEnumerate {
                device: describe(device),
            })?;
        let devices: Vec<Device> = devices.into_iter().collect();
        let found = match visible {
            Some(visible) => Some(visible.clone()),
            None => detect(&kind).filter(|found| found.device_count() == devices.len()),
        };
        Ok(match found {
            Some(visible) => Listing {
                devices: chosen(&visible, &devices)?,
                reason: visible.why().to_string(),
                visible: Some(visible),
            },
            None => Listing {
                reason: format!("all that the backend of {} lists", describe(device)),
                devices,
                visible: None,
            },
        })
    }

    /// The devices of these ordinals.
    pub(crate) fn pick(&self, ids: &[usize]) -> Result<Resolved, DataParallelError> {
        let devices = ids
            .iter()
            .enumerate()
            .map(|(position, &id)| {
                self.devices
                    .get(id)
                    .cloned()
                    .ok_or_else(|| self.not_found(id, position))
            })
            .collect::<Result<_, _>>()?;
        Ok(Resolved {
            devices,
            ordinals: Some(ids.to_vec()),
            reason: self.reason.clone(),
            warnings: self.warnings(ids),
        })
    }

    /// What makes these cards slower together than they could be, with the remedy.
    fn warnings(&self, ids: &[usize]) -> Vec<String> {
        let Some(visible) = &self.visible else {
            return Vec::new();
        };
        let chosen: Vec<_> = ids
            .iter()
            .filter_map(|&id| visible.devices().get(id).cloned())
            .collect();
        let mut warnings: Vec<String> = imbalance(&chosen)
            .map(|odd| odd.to_string())
            .into_iter()
            .collect();
        if chosen.len() > 1 && visible.kind() == DeviceKind::Cuda && find_library("nccl").is_none()
        {
            warnings.push(
                "NCCL was not found, so copies between the cards go through the host; install it, or put the folder of \
                 libnccl.so.2 on LD_LIBRARY_PATH"
                    .into(),
            );
        }
        warnings
    }

    fn not_found(&self, id: usize, position: usize) -> DataParallelError {
        // The visible list knows the cards, so its error says more: physical numbers, and the right ordinal.
        if let Some(visible) = &self.visible
            && let Err(mut error) = visible.select([u32::try_from(id).unwrap_or(u32::MAX)])
        {
            // It was asked of this id alone.
            if let VisibilityError::OutOfRange { position: at, .. } = &mut error {
                *at = position;
            }
            return error.into();
        }
        DataParallelError::DeviceNotFound {
            id,
            position,
            available: self.describe(),
        }
    }

    /// What there is, for error messages.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<String> = self
            .devices
            .iter()
            .enumerate()
            .map(|(id, device)| format!("{id} = {}", describe(device)))
            .collect();
        match names.as_slice() {
            [] => "no device is visible".into(),
            [one] => format!("one device is visible ({one})"),
            many => format!("{} devices are visible ({})", many.len(), many.join(", ")),
        }
    }
}

/// Whether `device` is of a backend that runs in this process.
pub(crate) fn is_local(device: &Device) -> bool {
    device_types()
        .into_iter()
        .any(|kind| Device::enumerate(kind).iter().any(|other| other == device))
}

/// Whether Burn's collective works between `devices`: NVIDIA cards of this process, where NCCL is installed.
#[allow(unused_variables)]
pub(crate) fn has_collective(devices: &[Device]) -> bool {
    #[cfg(feature = "cuda")]
    {
        let cards = Device::enumerate(DeviceType::Cuda);
        devices
            .iter()
            .all(|device| cards.iter().any(|card| card == device))
            && find_library("nccl").is_some()
    }
    #[cfg(not(feature = "cuda"))]
    false
}

/// The devices of a visible list: entry `i` is what the driver calls `driver_ordinal`.
fn chosen(visible: &VisibleDevices, devices: &[Device]) -> Result<Vec<Device>, DataParallelError> {
    visible
        .devices()
        .iter()
        .map(|entry| {
            let index = entry.driver_ordinal as usize;
            devices
                .get(index)
                .cloned()
                .ok_or_else(|| DataParallelError::DeviceNotFound {
                    id: index,
                    position: entry.ordinal.index(),
                    available: format!("Burn sees {} devices of this backend", devices.len()),
                })
        })
        .collect()
}

/// The visible list of this process, where the backend has one.
#[allow(unused_variables)]
fn detect(kind: &DeviceType) -> Option<VisibleDevices> {
    #[cfg(feature = "cuda")]
    if matches!(kind, DeviceType::Cuda) {
        return Some(VisibleDevices::from_env(DeviceKind::Cuda));
    }
    #[cfg(feature = "rocm")]
    if matches!(kind, DeviceType::Rocm) {
        return Some(VisibleDevices::from_env(DeviceKind::Rocm));
    }
    None
}

/// The backends compiled in whose devices can be listed.
fn device_types() -> Vec<DeviceType> {
    vec![
        #[cfg(feature = "flex")]
        DeviceType::Flex,
        #[cfg(feature = "cuda")]
        DeviceType::Cuda,
        #[cfg(feature = "rocm")]
        DeviceType::Rocm,
        #[cfg(feature = "vulkan")]
        DeviceType::Vulkan,
        #[cfg(feature = "wgpu")]
        DeviceType::Wgpu,
    ]
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn_visible_devices::Inventory;

    #[test]
    fn unequal_cards_are_warned_of_only_where_both_are_used()
    -> Result<(), Box<dyn std::error::Error>> {
        let inventory = Inventory::from_json(
            r#"{"devices": [
                {"physical": 0, "uuid": "GPU-00", "memory_total_bytes": 80000},
                {"physical": 1, "uuid": "GPU-01", "memory_total_bytes": 24000}
            ]}"#,
        )?;
        let listing = Listing {
            devices: vec![Device::flex(), Device::flex()],
            visible: Some(VisibleDevices::resolve(None, None, &inventory)),
            reason: "a test".into(),
        };
        let unequal = |ids: &[usize]| {
            let warnings = listing.warnings(ids);
            warnings.iter().any(|warning| warning.contains("unequal"))
        };
        assert!(unequal(&[0, 1]) && unequal(&[1, 0]));
        assert!(!unequal(&[0]) && !unequal(&[1]));
        Ok(())
    }

    #[test]
    fn an_error_names_the_position_in_the_list_that_was_given()
    -> Result<(), Box<dyn std::error::Error>> {
        let inventory =
            Inventory::from_json(r#"{"devices": [{"physical": 0, "uuid": "GPU-00"}]}"#)?;
        let listing = Listing {
            devices: vec![Device::flex()],
            visible: Some(VisibleDevices::resolve(None, None, &inventory)),
            reason: "a test".into(),
        };
        for position in 0..3 {
            let mut ids = vec![0; position];
            ids.push(7);
            match listing.pick(&ids) {
                Err(DataParallelError::Visibility(VisibilityError::OutOfRange {
                    position: found,
                    ..
                })) => assert_eq!(found, position),
                other => panic!("{:?}", other.err()),
            }
        }
        Ok(())
    }
}
