//! Devices with gradient checkpointing: the same numbers, and shards on devices that checkpoint too.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_dp::{DataParallel, DeviceIds, PerReplica, Scatter};

use crate::equivalence::{Task, adam, assert_runs_close, mlp};
use crate::models::{ConvNet, Mlp, Nested, device, tensor};

fn checkpointing() -> Device {
    Device::flex().autodiff().gradient_checkpointing()
}

fn assert_equal_on_both<M, X>(what: &str, task: impl Fn(&Device) -> Task<M, X>)
where
    M: Module + 'static,
    X: Scatter + Clone + Send + 'static,
{
    let plain = task(&device()).bare(adam());
    let task = task(&checkpointing());
    assert_runs_close(&format!("{what}, bare"), &task.bare(adam()), &plain);
    for replicas in [1, 2, 3] {
        task.assert_equals_bare(what, replicas, adam, &plain);
    }
}

#[test]
fn a_model_that_checkpoints_gives_the_same_numbers() {
    let batches = |device: &Device| {
        (0..3)
            .map(|step| {
                (
                    tensor([7, 3], step, device),
                    tensor([7, 2], step + 50, device),
                )
            })
            .collect()
    };
    assert_equal_on_both("MLP", |device| Task {
        model: Mlp::new(device),
        forward: Mlp::forward,
        batches: batches(device),
    });
    // With relu: an operation that is computed again in backward.
    assert_equal_on_both("nested", |device| Task {
        model: Nested::new(device),
        forward: Nested::forward,
        batches: batches(device),
    });
    assert_equal_on_both("conv net", |device| Task {
        model: ConvNet::new(device),
        forward: ConvNet::forward,
        batches: (0..3)
            .map(|step| {
                (
                    tensor([5, 1, 4, 4], step, device),
                    tensor([5, 2], step + 50, device),
                )
            })
            .collect(),
    });
}

/// Replicas that silently stop checkpointing give the right numbers and run out of memory.
#[test]
fn replicas_and_shards_keep_the_strategy() {
    let expected = checkpointing().gradient_checkpointing_strategy();
    assert_ne!(
        expected,
        device().gradient_checkpointing_strategy(),
        "the test could not fail"
    );
    let model =
        DataParallel::new(Mlp::new(&checkpointing()), DeviceIds::repeat(0, 3)).expect("it wraps");
    assert!(
        model
            .replica_devices()
            .iter()
            .all(|device| device.gradient_checkpointing_strategy() == expected)
    );
    let seen = model
        .forward(
            tensor([6, 3], 1, &checkpointing()),
            |replica: &Mlp, x: Tensor<2>| {
                let weight = replica.first.weight.val().device();
                PerReplica(vec![(
                    x.device().gradient_checkpointing_strategy(),
                    weight.gradient_checkpointing_strategy(),
                )])
            },
        )
        .expect("forward works");
    assert_eq!(seen.0, vec![(expected, expected); 3]);
}

/// The list of devices does not say how gradients are computed; the model does.
#[test]
fn a_plain_model_does_not_start_to_checkpoint() {
    let model = DataParallel::new(mlp(4, 1).model, DeviceIds::devices([checkpointing()]))
        .expect("it wraps");
    let expected = device().gradient_checkpointing_strategy();
    assert_eq!(model.primary().gradient_checkpointing_strategy(), expected);
}
