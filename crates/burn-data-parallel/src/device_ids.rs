//! Which devices a [`DataParallel`](crate::DataParallel) uses.

use burn::tensor::Device;
use burn_visible_devices::{Ordinal, VisibleDevices};

use crate::error::DataParallelError;
use crate::inspect::describe;
use crate::listing::Listing;

/// More replicas than this are a mistake, not a machine.
pub(crate) const MAX_REPLICAS: usize = 1024;

/// The devices of a [`DataParallel`](crate::DataParallel), in order; the first is the primary.
///
/// Ids are ordinals: positions in the list of visible devices, never physical numbers. With `CUDA_VISIBLE_DEVICES=3,2`, id 0
/// is card 3. See [`VisibleDevices`] for a list given in code.
///
/// ```
/// use burn_data_parallel::DeviceIds;
/// use burn::tensor::Device;
///
/// let all: DeviceIds = DeviceIds::all();
/// let some: DeviceIds = [0, 2, 3].into();
/// let two_on_one: DeviceIds = DeviceIds::repeat(0, 2);
/// let given: DeviceIds = DeviceIds::devices([Device::flex()]);
/// ```
#[derive(Clone, Debug)]
pub struct DeviceIds {
    selection: Selection,
    visible: Option<VisibleDevices>,
}

#[derive(Clone, Debug)]
enum Selection {
    All,
    Ordinals(Vec<usize>),
    Repeat { id: usize, replicas: usize },
    Devices(Vec<Device>),
}

/// Devices in use, with the ordinal of each where it has one.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) devices: Vec<Device>,
    pub(crate) ordinals: Option<Vec<usize>>,
    /// Why these devices, for the log.
    pub(crate) reason: String,
    /// What to warn of, for the log.
    pub(crate) warnings: Vec<String>,
}

impl DeviceIds {
    fn of(selection: Selection) -> Self {
        Self {
            selection,
            visible: None,
        }
    }

    /// Every visible device of the model's backend, in order.
    pub fn all() -> Self {
        Self::of(Selection::All)
    }

    /// `replicas` replicas on the one device `id`: for tests, and for a CPU. It cannot be faster than one replica on a GPU.
    pub fn repeat(id: usize, replicas: usize) -> Self {
        Self::of(Selection::Repeat { id, replicas })
    }

    /// These devices, whatever their backend calls them: remote devices, or devices that are not enumerated.
    pub fn devices(devices: impl IntoIterator<Item = Device>) -> Self {
        Self::of(Selection::Devices(devices.into_iter().collect()))
    }

    /// The same ids, as positions in `visible` rather than in what the environment makes visible.
    pub fn within(mut self, visible: VisibleDevices) -> Self {
        self.visible = Some(visible);
        self
    }

    /// Look the ids up for a model on `model_device`.
    pub(crate) fn resolve(
        &self,
        model_device: Option<&Device>,
        allow_repeated: bool,
    ) -> Result<Resolved, DataParallelError> {
        let resolved = match &self.selection {
            Selection::Devices(devices) => Resolved {
                devices: devices.clone(),
                ordinals: None,
                reason: "given in code".into(),
                warnings: Vec::new(),
            },
            other => {
                let device = model_device.ok_or(DataParallelError::NoParameters)?;
                let listing = Listing::of(device, self.visible.as_ref())?;
                let ids = match other {
                    Selection::Ordinals(ids) => ids.clone(),
                    Selection::Repeat { id, replicas } => {
                        check_count(*replicas)?;
                        vec![*id; *replicas]
                    }
                    _ => (0..listing.devices.len()).collect(),
                };
                if ids.is_empty() {
                    return Err(DataParallelError::NoDevices {
                        available: listing.describe(),
                    });
                }
                listing.pick(&ids)?
            }
        };
        if resolved.devices.is_empty() {
            return Err(DataParallelError::NoDevices {
                available: "no device was given".into(),
            });
        }
        check_count(resolved.devices.len())?;
        let repeats_asked_for = matches!(self.selection, Selection::Repeat { .. });
        if !allow_repeated && !repeats_asked_for {
            check_distinct(&resolved.devices)?;
        }
        check_backend(&resolved.devices)?;
        Ok(resolved)
    }
}

fn check_count(replicas: usize) -> Result<(), DataParallelError> {
    if (1..=MAX_REPLICAS).contains(&replicas) {
        Ok(())
    } else {
        Err(DataParallelError::ReplicaCount {
            replicas,
            max: MAX_REPLICAS,
        })
    }
}

pub(crate) fn check_distinct(devices: &[Device]) -> Result<(), DataParallelError> {
    for (second, device) in devices.iter().enumerate() {
        if let Some(first) = devices[..second].iter().position(|other| other == device) {
            return Err(DataParallelError::RepeatedDevice {
                device: describe(device),
                first,
                second,
            });
        }
    }
    Ok(())
}

fn check_backend(devices: &[Device]) -> Result<(), DataParallelError> {
    let Some(primary) = devices.first() else {
        return Ok(());
    };
    let kind = |device: &Device| std::mem::discriminant(device.clone().inner().as_dispatch());
    match devices
        .iter()
        .position(|device| kind(device) != kind(primary))
    {
        None => Ok(()),
        Some(position) => Err(DataParallelError::MixedBackends {
            device: describe(&devices[position]),
            position,
            primary: describe(primary),
        }),
    }
}

impl<const N: usize> From<[usize; N]> for DeviceIds {
    fn from(ids: [usize; N]) -> Self {
        ids.to_vec().into()
    }
}

impl From<Vec<usize>> for DeviceIds {
    fn from(ids: Vec<usize>) -> Self {
        Self::of(Selection::Ordinals(ids))
    }
}

impl From<&[usize]> for DeviceIds {
    fn from(ids: &[usize]) -> Self {
        ids.to_vec().into()
    }
}

impl From<Vec<Ordinal>> for DeviceIds {
    fn from(ids: Vec<Ordinal>) -> Self {
        ids.into_iter()
            .map(Ordinal::index)
            .collect::<Vec<_>>()
            .into()
    }
}

/// Every device of a visible list, in its order.
impl From<VisibleDevices> for DeviceIds {
    fn from(visible: VisibleDevices) -> Self {
        Self::all().within(visible)
    }
}
