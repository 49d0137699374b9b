//! The wrapper as a Burn module: transparent, so records, optimizers and displays see the wrapped module.

use std::time::Instant;

use burn::module::{
    Content, Devices, DisplaySettings, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper,
    ModuleVisitor,
};
use burn::tensor::Device;

use crate::data_parallel::DataParallel;
use crate::inspect::describe;
use crate::stats::PhaseStats;

/// No `enter_module`: paths and record keys are those of the wrapped module, so there is no `module.` prefix.
impl<M: Module> Module for DataParallel<M> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.module.collect_devices(devices)
    }

    /// Forks the wrapped module. A step needs the parameters on the primary, so after a fork to another device the next step
    /// is a `Placement` error until the module is back.
    fn fork(self, device: &Device) -> Self {
        self.with_module(|module| module.fork(device))
    }

    /// Moves the wrapped module, as [`fork`](Module::fork) does; nothing happens where it is there already.
    fn to_device(self, device: &Device) -> Self {
        // Burn's own move makes non-leaves of all parameters even then, and they would no longer train.
        if self.module.devices().iter().all(|own| own == device) {
            return self;
        }
        self.with_module(|module| module.to_device(device))
    }

    fn train(self) -> Self {
        self.map_module(Module::train)
    }

    /// A wrapper of the module in validation mode; it runs on the same replicas.
    fn valid(&self) -> Self {
        self.beside(self.module.valid())
    }

    fn materialize(self) -> Self {
        self.map_module(Module::materialize)
    }

    fn num_params(&self) -> usize {
        self.module.num_params()
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        self.module.visit(visitor);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        let started = Instant::now();
        let mapped = self.with_module(|module| module.map(mapper));
        mapped.shared.meter.optimizer(PhaseStats::since(started));
        mapped
    }
}

impl<M: ModuleDisplay + Module> ModuleDisplay for DataParallel<M> {}

impl<M: ModuleDisplay + Module> ModuleDisplayDefault for DataParallel<M> {
    fn content(&self, content: Content) -> Option<Content> {
        content
            .set_top_level_type("DataParallel")
            .add_debug_attribute("replicas", &format_args!("[{}]", self.summary()))
            .add_debug_attribute("primary", &format_args!("{}", describe(self.primary())))
            .add("module", &self.module)
            .optional()
    }

    fn num_params(&self) -> usize {
        Module::num_params(&self.module)
    }
}

impl<M: ModuleDisplay + Module> std::fmt::Display for DataParallel<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&ModuleDisplay::format(self, DisplaySettings::default()))
    }
}

impl<M: Module> std::fmt::Debug for DataParallel<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataParallel")
            .field("replicas", &format_args!("[{}]", self.summary()))
            .field("primary", &format_args!("{}", describe(self.primary())))
            .field(
                "output_device",
                &format_args!("{}", describe(self.output_device())),
            )
            .field("dim", &self.shared.dim)
            .field("module", &self.module)
            .finish()
    }
}
