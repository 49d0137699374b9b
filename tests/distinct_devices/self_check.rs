//! The self-check finds a device whose copies arrive changed, and the remedies work.

use burn::tensor::{Device, Tensor};
use burn_dp::faults::{self, Fault};
use burn_dp::{DataParallel, DataParallelConfig, DataParallelError, DeviceIds, OnBadCopy};

use super::*;

/// Copies from one device to another arrive as zeros; the other way they are right.
struct WrongBytes {
    from: Device,
    into: Device,
}

impl Fault for WrongBytes {
    fn corrupts(&self, from: &Device, into: &Device) -> bool {
        (from, into) == (&self.from, &self.into)
    }
}

fn wrap(
    config: DataParallelConfig,
    bad: (usize, usize),
) -> Result<DataParallel<Net>, DataParallelError> {
    let devices = devices();
    let fault = WrongBytes {
        from: devices[bad.0].clone(),
        into: devices[bad.1].clone(),
    };
    let net = Net::new(&devices[0].clone().autodiff());
    faults::with(fault, || config.init_on(net, DeviceIds::devices(devices)))
}

#[test]
fn every_ordered_pair_is_tried() {
    let _alone = alone();
    within(120, || {
        let names: Vec<String> = devices()
            .iter()
            .map(|device| format!("{device:?}"))
            .map(|name| {
                name.replace("Device<", "")
                    .trim_end_matches('>')
                    .to_string()
            })
            .collect();
        for from in 0..3 {
            for into in (0..3).filter(|&into| into != from) {
                let error = wrap(DataParallelConfig::new(), (from, into)).expect_err("it is found");
                match error {
                    DataParallelError::SelfCheck {
                        from: sender,
                        into: receiver,
                        problem,
                    } => {
                        assert_eq!((&sender, &receiver), (&names[from], &names[into]));
                        assert!(problem.contains("arrived changed"), "{problem}");
                    }
                    other => panic!("another error: {other}"),
                }
            }
        }
    });
}

#[test]
fn bad_copies_go_through_the_host_where_that_is_asked_for() {
    let _alone = alone();
    within(120, || {
        let config = DataParallelConfig::new().with_on_bad_copy(OnBadCopy::HostStaged);
        for bad in [(0, 1), (2, 0)] {
            let model = wrap(config.clone(), bad).expect("it wraps");
            let good = wrap(DataParallelConfig::new().with_self_check(false), (0, 0))
                .expect("so does this");
            let primary = model.primary().clone();
            let x = || tensor([7, 2], 3, &primary);
            let step = |net: &Net, x: Tensor<2>| net.forward(x).powf_scalar(2.0).mean();
            let (loss, grads) = model.train_step(x(), step).expect("the step works");
            let (expected, expected_grads) = good.train_step(x(), step).expect("so does this");
            assert_eq!(values(&loss), values(&expected), "{bad:?}");
            assert_eq!(
                bits(&gradients(&model, &grads)),
                bits(&gradients(&good, &expected_grads))
            );
            let output = model
                .valid()
                .forward(x().inner(), |net: &Net, x| net.forward(x));
            assert_eq!(output.expect("validation works").dims()[0], 7);
            let error = model.forward(x(), |net: &Net, x| net.forward(x));
            let error = error.expect_err("autodiff cannot follow");
            assert!(
                matches!(error, DataParallelError::StagedGraph { .. }),
                "{error}"
            );
        }
    });
}

#[test]
fn without_the_check_wrong_copies_would_go_unnoticed() {
    let _alone = alone();
    within(120, || {
        let config = DataParallelConfig::new().with_self_check(false);
        let model = wrap(config, (0, 1)).expect("nothing is seen");
        let primary = model.primary().clone();
        let output = model
            .valid()
            .forward(
                tensor([6, 2], 3, &primary.clone().inner()),
                |net: &Net, x| net.forward(x),
            )
            .expect("nothing is seen here either");
        let expected = model
            .module()
            .valid()
            .forward(tensor([6, 2], 3, &primary.inner()));
        assert_ne!(values(&output), values(&expected));
    });
}
