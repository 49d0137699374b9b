//! What the engine reads off a module before a step: its parts, its traits, and where it is.

use std::collections::{HashMap, HashSet};

use burn::module::{Flag, Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::error::DataParallelError;

/// What a module is made of, in order of visit: changes when parameters are added, removed or renamed.
pub(crate) fn signature<M: Module>(module: &M) -> Vec<ParamId> {
    let mut ids = Ids(Vec::new());
    module.visit(&mut ids);
    ids.0
}

struct Ids(Vec<ParamId>);

impl ModuleVisitor for Ids {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.id);
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.0.push(param.id);
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.0.push(param.id);
    }
    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.0.push(flag.id);
    }
}

/// Whether a parameter's tensor takes a gradient, or would if it were a leaf: after `to_device` it is a result of the tensor
/// that was moved, and a model of such tensors runs but learns nothing (Burn's `Module::to_device` warns of it).
pub(crate) fn is_trainable<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.is_require_grad() || tensor.is_tracked()
}

/// Whether every parameter of `module` that should take a gradient is a leaf, so that it will.
pub(crate) fn has_leaves_only<M: Module>(module: &M) -> bool {
    struct Leaves(bool);
    impl ModuleVisitor for Leaves {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0 &= param.is_require_grad() || !param.is_tracked();
        }
    }
    let mut leaves = Leaves(true);
    module.visit(&mut leaves);
    leaves.0
}

/// Float parameters that stand in several places with different values.
///
/// Burn ties weights by giving one `Param` to two fields, but its optimizers step the first place alone (the gradient is taken
/// out of `GradientsParams` there), so that the places drift apart. Replicas must be as untied as the primary is. Only modules
/// with a repeated id pay for the comparison, which reads the values.
pub(crate) fn untied<M: Module>(module: &M) -> HashSet<ParamId> {
    let ids = signature(module);
    let mut seen = HashSet::with_capacity(ids.len());
    let repeated: HashSet<ParamId> = ids.into_iter().filter(|id| !seen.insert(*id)).collect();
    if repeated.is_empty() {
        return repeated;
    }
    let mut visitor = Untied {
        repeated,
        first: HashMap::new(),
        untied: HashSet::new(),
    };
    module.visit(&mut visitor);
    visitor.untied
}

struct Untied {
    repeated: HashSet<ParamId>,
    first: HashMap<ParamId, TensorData>,
    untied: HashSet<ParamId>,
}

impl ModuleVisitor for Untied {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.repeated.contains(&param.id) {
            return;
        }
        let data = param.base().into_data();
        let first = self.first.entry(param.id).or_insert_with(|| data.clone());
        if *first != data {
            self.untied.insert(param.id);
        }
    }
}

/// What the engine must know of a module before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Some parameter is on an autodiff device: the module is in training mode.
    pub(crate) autodiff: bool,
    /// Some float value takes no gradient: a buffer such as running statistics, or a frozen parameter.
    pub(crate) buffers: bool,
    /// Some layer draws random numbers in forward.
    pub(crate) random: bool,
    /// Some parameter is not on the primary.
    pub(crate) misplaced: bool,
}

impl Traits {
    pub(crate) fn of<M: Module>(module: &M, primary: &Device) -> Self {
        let mut visitor = TraitsVisitor {
            traits: Traits::default(),
            primary,
            batch_norm: Vec::new(),
        };
        module.visit(&mut visitor);
        visitor.traits
    }
}

struct TraitsVisitor<'a> {
    traits: Traits,
    primary: &'a Device,
    /// For each module on the path, whether it is a BatchNorm.
    batch_norm: Vec<bool>,
}

impl ModuleVisitor for TraitsVisitor<'_> {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.batch_norm.push(container_type == "Struct:BatchNorm");
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.batch_norm.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.traits.autodiff |= param.is_autodiff();
        self.traits.buffers |= !param.is_require_grad();
        self.traits.misplaced |= param.device() != *self.primary;
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.traits.misplaced |= param.device() != *self.primary;
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.traits.misplaced |= param.device() != *self.primary;
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        // Burn's flags switch training behaviour: that of BatchNorm draws nothing, that of all other layers does.
        let batch_norm = self.batch_norm.last().copied().unwrap_or_default();
        self.traits.random |= flag.is_enabled() && !batch_norm;
    }
}

/// Check that every parameter of `module` is on `primary`.
pub(crate) fn check_placement<M: Module>(
    module: &M,
    primary: &Device,
) -> Result<(), DataParallelError> {
    let mut visitor = PlacementVisitor {
        primary,
        path: Vec::new(),
        error: None,
    };
    module.visit(&mut visitor);
    visitor.error.map_or(Ok(()), Err)
}

struct PlacementVisitor<'a> {
    primary: &'a Device,
    path: Vec<String>,
    error: Option<DataParallelError>,
}

impl PlacementVisitor<'_> {
    fn check(&mut self, device: Device) {
        if device != *self.primary && self.error.is_none() {
            self.error = Some(DataParallelError::Placement {
                path: self.path.join("."),
                device: describe(&device),
                primary: describe(self.primary),
            });
        }
    }
}

impl ModuleVisitor for PlacementVisitor<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.check(param.lazy_device());
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.check(param.lazy_device());
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.check(param.lazy_device());
    }
}

/// A device as messages name it: `Device<Flex(FlexDevice)>` without the wrapping.
pub(crate) fn describe(device: &Device) -> String {
    let text = format!("{:?}", device.clone().inner());
    text.strip_prefix("Device<")
        .and_then(|text| text.strip_suffix('>'))
        .unwrap_or(&text)
        .to_string()
}
