//! What a module's parameters are, and where.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::error::DataParallelError;

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
