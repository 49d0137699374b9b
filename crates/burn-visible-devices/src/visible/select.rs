//! Lists given in code: strict, and possible after the driver has started.

use super::{VisibleDevice, VisibleDevices};
use crate::mask::{Slot, read_list};
use crate::shown::shortened;
use crate::{DriverOutcome, Ordinal, VisibilityError};

/// The name of a list that is no variable, in messages.
const LIST: &str = "the list";

impl VisibleDevices {
    /// The devices with these ordinals, in this order, numbered anew from 0.
    ///
    /// Ordinals are positions in *this* list, so selections compose. It needs no environment variable and works after
    /// the driver has started; `driver_ordinal` of each device keeps the driver's own number.
    ///
    /// # Errors
    ///
    /// [`EmptyList`](VisibilityError::EmptyList), [`OutOfRange`](VisibilityError::OutOfRange),
    /// [`Duplicate`](VisibilityError::Duplicate), or [`DriverMissing`](VisibilityError::DriverMissing) when there is
    /// nothing to select from for want of a driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{Inventory, PhysicalId, VisibleDevices};
    ///
    /// let inventory = Inventory::from_json(r#"{"devices": [
    ///     {"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000"},
    ///     {"physical": 1, "uuid": "GPU-10000000-0000-0000-0000-000000000000"}
    /// ]}"#)?;
    /// let visible = VisibleDevices::resolve(None, None, &inventory).select([1, 0])?;
    /// assert_eq!(visible.devices()[0].physical, PhysicalId::from(1));
    /// assert_eq!(visible.devices()[0].driver_ordinal, 1);
    /// # Ok::<(), burn_visible_devices::VisibilityError>(())
    /// ```
    pub fn select<I>(&self, ordinals: I) -> Result<Self, VisibilityError>
    where
        I: IntoIterator,
        I::Item: Into<Ordinal>,
    {
        let list: Vec<String> = ordinals
            .into_iter()
            .map(|ordinal| ordinal.into().to_string())
            .collect();
        self.select_str(&list.join(","))
    }

    /// The devices that a text such as `"3,2,0,1"` or `"GPU-9942190a,GPU-e429"` names, in this order.
    ///
    /// The grammar is that of `CUDA_VISIBLE_DEVICES`, numbers being ordinals of this list, but whatever the driver
    /// passes over in silence is an error here.
    ///
    /// # Errors
    ///
    /// The variant that names the first oddity, and those of [`select`](Self::select).
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{Inventory, VisibilityError, VisibleDevices};
    ///
    /// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
    /// let visible = VisibleDevices::resolve(None, None, &Inventory::from_json(json)?);
    /// assert_eq!(visible.select_str("GPU-00")?.device_count(), 1);
    /// assert!(matches!(visible.select_str("0,abc"), Err(VisibilityError::Unparsable { position: 1, .. })));
    /// # Ok::<(), burn_visible_devices::VisibilityError>(())
    /// ```
    pub fn select_str(&self, list: &str) -> Result<Self, VisibilityError> {
        if let DriverOutcome::DriverMissing { reason } = &self.outcome {
            return Err(VisibilityError::DriverMissing {
                reason: reason.clone(),
            });
        }
        if list.trim().is_empty() {
            return Err(VisibilityError::EmptyList {
                visible: self.summary(),
            });
        }
        let slots: Vec<Slot> = self.devices.iter().map(|device| device.slot).collect();
        let selection = read_list(LIST, list, &slots, &self.inventory);
        if let Some(odd) = selection.diagnostics.into_iter().next() {
            return Err(VisibilityError::from_oddity(
                odd,
                self.devices.len(),
                self.summary(),
            ));
        }
        let chosen = selection.picked.iter().map(|pick| &self.devices[pick.slot]);
        let devices: Vec<_> = (0..)
            .map(Ordinal::new)
            .zip(chosen)
            .map(|(ordinal, device)| VisibleDevice {
                ordinal,
                ..device.clone()
            })
            .collect();
        let chosen = shortened(list);
        let why = format!("{}; selected in code: {}", self.why, chosen.escape_debug());
        Ok(Self {
            devices,
            why,
            ..self.clone()
        })
    }
}
