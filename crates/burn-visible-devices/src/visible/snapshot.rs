//! The environment as it was first read: what the driver does too, at its start.

use super::VisibleDevices;
use crate::{DeviceKind, Diagnostic, DiagnosticKind, Environment, Inventory};
use std::sync::OnceLock;

/// The first environment that was read and what it selected. Later changes are reported and change nothing, because
/// the driver reads the variables once.
///
/// [`VisibleDevices::from_env`] keeps one for the process; a test can have its own.
///
/// # Examples
///
/// ```
/// use burn_visible_devices::{DiagnosticKind, Environment, EnvironmentSnapshot, Inventory};
///
/// let json = r#"{"devices": [{"physical": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000001"}]}"#;
/// let inventory = Inventory::from_json(json)?;
/// let snapshot = EnvironmentSnapshot::new();
/// snapshot.visible(&Environment::cuda(Some("0"), None), || inventory.clone());
/// let later = snapshot.visible(&Environment::cuda(Some(""), None), || inventory.clone());
/// assert_eq!(later.device_count(), 1);
/// assert_eq!(later.diagnostics()[0].kind, DiagnosticKind::AlreadyInitialized);
/// # Ok::<(), burn_visible_devices::VisibilityError>(())
/// ```
#[derive(Debug, Default)]
pub struct EnvironmentSnapshot {
    first: OnceLock<VisibleDevices>,
}

impl EnvironmentSnapshot {
    /// A snapshot that is still to be taken.
    pub const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// What the first environment selected. The first call asks for the inventory and decides; a later call with
    /// another environment gets the same devices and a diagnostic.
    pub fn visible(
        &self,
        now: &Environment,
        inventory: impl FnOnce() -> Inventory,
    ) -> VisibleDevices {
        let first = self.first.get_or_init(|| {
            let visible = VisibleDevices::resolve_environment(now, &inventory());
            log::info!("{}", visible.why());
            for diagnostic in visible.diagnostics() {
                log::warn!("{diagnostic}");
            }
            visible
        });
        let mut visible = first.clone();
        visible.diagnostics.extend(changes(&first.environment, now));
        visible
    }
}

fn changes(first: &Environment, now: &Environment) -> Vec<Diagnostic> {
    let variables = |environment: &Environment| -> Vec<_> {
        environment
            .masks()
            .iter()
            .chain(environment.order())
            .cloned()
            .collect()
    };
    let pairs = variables(first).into_iter().zip(variables(now));
    pairs
        .filter(|(before, after)| before != after)
        .map(|(before, after)| {
            let message = format!(
                "changed from {} after it was read; the driver reads it once, so the first value stays in force; set it \
                 before the program starts, or select devices in code",
                before.value.map_or_else(|| "unset".to_owned(), |value| format!("{value:?}"))
            );
            let entry = after.value.unwrap_or_default();
            Diagnostic::new(DiagnosticKind::AlreadyInitialized, &after.name, &entry, message)
        })
        .collect()
}

impl VisibleDevices {
    /// What the environment of this process leaves visible.
    ///
    /// The variables and the cards are read once in the life of the process. When a variable has changed since, the
    /// old list comes back with an [`AlreadyInitialized`](DiagnosticKind::AlreadyInitialized) diagnostic, because the
    /// driver would not follow the change either.
    ///
    /// # Examples
    ///
    /// ```
    /// use burn_visible_devices::{DeviceKind, VisibleDevices};
    ///
    /// let visible = VisibleDevices::from_env(DeviceKind::Cuda);
    /// println!("{}\n{visible}", visible.why());
    /// ```
    pub fn from_env(kind: DeviceKind) -> Self {
        static CUDA: EnvironmentSnapshot = EnvironmentSnapshot::new();
        static ROCM: EnvironmentSnapshot = EnvironmentSnapshot::new();
        let snapshot = match kind {
            DeviceKind::Cuda => &CUDA,
            DeviceKind::Rocm => &ROCM,
        };
        snapshot.visible(&Environment::of_process(kind), || Inventory::detect(kind))
    }
}
