//! The largest difference between the parameters of two models.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{ExecutionError, Tensor};

use crate::problem::Problem;

/// The largest difference between parameters of `left` and `right`, which are of one structure.
pub fn largest_difference<M: Module, N: Module>(left: &M, right: &N) -> Result<f32, Problem> {
    let (left, right) = (values(left)?, values(right)?);
    let differences = left
        .iter()
        .zip(&right)
        .map(|(left, right)| (left - right).abs());
    Ok(differences.fold(0.0, f32::max))
}

fn values<M: Module>(module: &M) -> Result<Vec<f32>, Problem> {
    let mut values = Values(Ok(Vec::new()));
    module.visit(&mut values);
    Ok(values.0?)
}

struct Values(Result<Vec<f32>, ExecutionError>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Ok(values) = &mut self.0 {
            match param.val().try_into_data() {
                Ok(data) => values.extend(data.iter::<f32>()),
                Err(error) => self.0 = Err(error),
            }
        }
    }
}
