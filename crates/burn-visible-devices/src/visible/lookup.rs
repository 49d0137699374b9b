//! Questions about the visible devices. None of them creates a context on a card.

use super::{VisibleDevice, VisibleDevices};
use crate::mask::{Slot, physical_hint};
use crate::{ComputeCapability, Memory, Ordinal, PhysicalId, VisibilityError};

impl VisibleDevices {
    /// Whether any device is visible.
    pub fn is_available(&self) -> bool {
        !self.devices.is_empty()
    }

    /// How many devices are visible.
    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The first device, which holds the parameters in data parallelism.
    pub fn primary(&self) -> Option<&VisibleDevice> {
        self.devices.first()
    }

    /// The device with this ordinal.
    ///
    /// # Errors
    ///
    /// [`NoSuchOrdinal`](VisibilityError::NoSuchOrdinal), with the right ordinal if the number is a visible card's
    /// physical id.
    pub fn device(&self, ordinal: Ordinal) -> Result<&VisibleDevice, VisibilityError> {
        self.devices.get(ordinal.index()).ok_or_else(|| {
            let slots: Vec<Slot> = self.devices.iter().map(|device| device.slot).collect();
            let hint = physical_hint(PhysicalId::from(ordinal.get()), &slots, &self.inventory);
            VisibilityError::NoSuchOrdinal {
                ordinal,
                count: self.devices.len(),
                visible: self.summary(),
                hint: hint.map(|hint| format!("; {hint}")).unwrap_or_default(),
            }
        })
    }

    /// The card behind an ordinal.
    ///
    /// # Errors
    ///
    /// [`NoSuchOrdinal`](VisibilityError::NoSuchOrdinal).
    pub fn physical_of(&self, ordinal: Ordinal) -> Result<PhysicalId, VisibilityError> {
        Ok(self.device(ordinal)?.physical)
    }

    /// The ordinal of a card.
    ///
    /// # Errors
    ///
    /// [`NotVisible`](VisibilityError::NotVisible).
    pub fn ordinal_of(&self, physical: PhysicalId) -> Result<Ordinal, VisibilityError> {
        let found = self
            .devices
            .iter()
            .find(|device| device.physical == physical);
        found
            .map(|device| device.ordinal)
            .ok_or_else(|| VisibilityError::NotVisible {
                physical,
                visible: self.summary(),
            })
    }

    /// The product's name.
    ///
    /// # Errors
    ///
    /// [`NoSuchOrdinal`](VisibilityError::NoSuchOrdinal).
    pub fn name(&self, ordinal: Ordinal) -> Result<&str, VisibilityError> {
        Ok(&self.device(ordinal)?.name)
    }

    /// The compute capability; `None` where it is not known, as for AMD cards.
    ///
    /// # Errors
    ///
    /// [`NoSuchOrdinal`](VisibilityError::NoSuchOrdinal).
    pub fn compute_capability(
        &self,
        ordinal: Ordinal,
    ) -> Result<Option<ComputeCapability>, VisibilityError> {
        Ok(self.device(ordinal)?.compute_capability)
    }

    /// The memory of a device now: total, free, and used by this process.
    ///
    /// # Errors
    ///
    /// [`NoSuchOrdinal`](VisibilityError::NoSuchOrdinal), and [`QueryFailed`](VisibilityError::QueryFailed) without
    /// NVML or when it does not know the device.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{DeviceKind, Ordinal, VisibleDevices};
    ///
    /// match VisibleDevices::from_env(DeviceKind::Cuda).memory(Ordinal::from(0)) {
    ///     Ok(memory) => println!("{} of {} bytes are free", memory.free, memory.total),
    ///     Err(error) => eprintln!("{error}"),
    /// }
    /// ```
    pub fn memory(&self, ordinal: Ordinal) -> Result<Memory, VisibilityError> {
        Memory::read(self.device(ordinal)?)
    }
}
