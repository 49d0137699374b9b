//! burn-train's `Evaluator` on a wrapped model.

use burn::module::Module;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{ClassificationOutput, EvaluatorBuilder, InferenceStep};
use burn_dp::{DataParallel, DeviceIds};

use crate::models::{Batch, Net, device, items, loader};
use crate::watch::{Trace, Watch};

fn evaluate<M>(model: M) -> Trace
where
    M: Module + InferenceStep<Input = Batch, Output = ClassificationOutput>,
    M: std::fmt::Display + 'static,
{
    let watch = Watch::default();
    let directory = tempfile::tempdir().unwrap();
    let result = EvaluatorBuilder::new(directory.path())
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .with_application_logger(None)
        .renderer(Box::new(watch.clone()))
        .build(model)
        .eval("held out", loader(items(11, 4), 4));
    assert!(result.error.is_none());
    watch.trace()
}

#[test]
fn an_evaluation_equals_that_of_the_bare_model() {
    let net = Net::new(&device(), 1);
    let bare = evaluate(net.valid());
    assert_eq!(bare.count("held out: 11 items"), 1);
    for replicas in [1, 2, 3, 8] {
        let model = DataParallel::new(net.clone(), DeviceIds::repeat(0, replicas)).unwrap();
        evaluate(model.valid()).assert_close(&format!("{replicas} replicas"), &bare, 2e-6);
    }
}
