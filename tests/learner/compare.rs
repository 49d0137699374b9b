//! Parameters of models, and how much they differ.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Float parameters and buffers by path.
pub type Values = BTreeMap<String, Vec<f32>>;

pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

pub fn parameters<M: Module>(module: &M) -> Values {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.values
}

#[derive(Default)]
struct Collector {
    path: Vec<String>,
    values: Values,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let repeated = self.values.insert(path.clone(), values(&param.base()));
        assert!(repeated.is_none(), "two parameters at {path}");
    }
}

#[track_caller]
pub fn assert_values_close(what: &str, left: &[f32], right: &[f32], tolerance: f32) {
    assert_eq!(left.len(), right.len(), "{what}: other lengths");
    for (index, (&left, &right)) in left.iter().zip(right).enumerate() {
        let difference = (left - right).abs() / right.abs().max(1.0);
        // Not `> tolerance`: a value that is not a number must fail.
        assert!(
            difference <= tolerance,
            "{what}, element {index}: {left} and {right} differ by {difference:e}"
        );
    }
}

#[track_caller]
pub fn assert_close(what: &str, left: &Values, right: &Values, tolerance: f32) {
    assert!(!right.is_empty(), "{what}: nothing to compare");
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        right.keys().collect::<Vec<_>>(),
        "{what}: other paths"
    );
    for (path, left) in left {
        assert_values_close(&format!("{what}, {path}"), left, &right[path], tolerance);
    }
}

/// Whether some parameter differs by more than `tolerance`.
pub fn differ(left: &Values, right: &Values, tolerance: f32) -> bool {
    left.iter().any(|(path, left)| {
        left.iter()
            .zip(&right[path])
            .any(|(left, right)| (left - right).abs() > tolerance)
    })
}
