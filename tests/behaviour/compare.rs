//! Differences between tensors, gradients and parameters.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Int, Tensor};

/// Values by parameter path.
pub type Values = BTreeMap<String, Vec<f32>>;

pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().iter::<f32>().collect()
}

pub fn int_values<const D: usize>(tensor: &Tensor<D, Int>) -> Vec<i64> {
    tensor.to_data().iter::<i64>().collect()
}

pub fn bool_values<const D: usize>(tensor: &Tensor<D, Bool>) -> Vec<bool> {
    tensor.to_data().iter::<bool>().collect()
}

/// All parameters and buffers of a module, int and bool ones too.
pub fn parameters<M: Module>(module: &M) -> Values {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.values
}

/// The gradients that are there, by the path of their parameter.
pub fn gradients<M: Module>(module: &M, grads: &GradientsParams) -> Values {
    let mut collector = Collector {
        grads: Some(grads),
        ..Collector::default()
    };
    module.visit(&mut collector);
    collector.values
}

#[derive(Default)]
struct Collector<'a> {
    path: Vec<String>,
    grads: Option<&'a GradientsParams>,
    values: Values,
}

impl Collector<'_> {
    fn add(&mut self, values: Vec<f32>) {
        let path = self.path.join(".");
        let repeated = self.values.insert(path.clone(), values);
        assert!(repeated.is_none(), "two parameters at {path}");
    }
}

impl ModuleVisitor for Collector<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        match self.grads {
            None => self.add(values(&param.base())),
            Some(grads) => {
                if let Some(grad) = grads.get::<D>(param.id) {
                    self.add(values(&grad));
                }
            }
        }
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if self.grads.is_none() {
            self.add(int_values(&param.val()).iter().map(|&x| x as f32).collect());
        }
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        if self.grads.is_none() {
            self.add(
                bool_values(&param.val())
                    .iter()
                    .map(|&x| f32::from(u8::from(x)))
                    .collect(),
            );
        }
    }
}

/// The largest difference, relative where values are above 1; infinite where a length differs or a value is not a number.
pub fn difference(left: &[f32], right: &[f32]) -> f64 {
    if left.len() != right.len() {
        return f64::INFINITY;
    }
    left.iter()
        .zip(right)
        .map(|(&left, &right)| {
            let (left, right) = (f64::from(left), f64::from(right));
            let difference = (left - right).abs() / right.abs().max(1.0);
            if difference.is_nan() {
                f64::INFINITY
            } else {
                difference
            }
        })
        .fold(0.0, f64::max)
}

/// The largest difference over all paths; panics where one side has a path that the other has not.
pub fn largest(what: &str, left: &Values, right: &Values) -> f64 {
    let keys = |values: &Values| values.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(left), keys(right), "{what}: other paths");
    assert!(!right.is_empty(), "{what}: nothing to compare");
    left.iter()
        .map(|(path, values)| difference(values, &right[path]))
        .fold(0.0, f64::max)
}

/// Assert that all values are equal up to `tolerance`, and return the largest difference.
#[track_caller]
pub fn assert_close(what: &str, left: &Values, right: &Values, tolerance: f64) -> f64 {
    let found = largest(what, left, right);
    assert!(
        found <= tolerance,
        "{what}: difference {found:e}, tolerance {tolerance:e}\n{left:?}\n{right:?}"
    );
    found
}

#[track_caller]
pub fn assert_values_close(what: &str, left: &[f32], right: &[f32], tolerance: f64) -> f64 {
    let found = difference(left, right);
    assert!(
        found <= tolerance,
        "{what}: difference {found:e}, tolerance {tolerance:e}\n{left:?}\n{right:?}"
    );
    found
}

/// The bits of all values, so that equality is exact (`0.0` is not `-0.0`, and NaN equals itself).
pub fn bits(values: &Values) -> BTreeMap<String, Vec<u32>> {
    values
        .iter()
        .map(|(path, values)| (path.clone(), values.iter().map(|x| x.to_bits()).collect()))
        .collect()
}
