//! Whatever stands in a configuration file is refused in words, or works.

use burn::config::Config;
use burn::tensor::Tensor;
use burn_dp::DataParallelConfig;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::models::{Mlp, device, tensor};

/// A number that may be in the way: of no device, too large for some type, no number of that kind.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (0_u64..4).prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => proptest::sample::select(vec![
            json!(u64::MAX), json!(i64::MIN), json!(1e308), json!(-0.0), json!(5e-324), json!(1e-10), json!(2.5),
        ]),
    ]
}

fn word() -> impl Strategy<Value = Value> {
    proptest::sample::select(vec![
        "auto",
        "in_turn",
        "free",
        "primary",
        "all_reduce",
        "error",
        "host_staged",
        "",
        "Auto",
    ])
    .prop_map(Value::from)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => number(),
        2 => any::<bool>().prop_map(Value::from),
        2 => word(),
        1 => Just(Value::Null),
        3 => proptest::collection::vec(number(), 0..5).prop_map(Value::from),
        2 => (0_usize..5).prop_map(|count| Value::from(vec![0; count])),
    ]
}

/// The field with a value of its type more often than not.
fn field() -> impl Strategy<Value = (String, Value)> {
    let fields = vec![
        ("device_ids", json!([0, 0])),
        ("output_device", json!(0)),
        ("dim", json!(1)),
        ("strict", json!(true)),
        ("allow_repeated", json!(true)),
        ("random_order", json!("in_turn")),
        ("bucket_bytes", json!(1)),
        ("time_limit_seconds", json!(1000.0)),
        ("self_check", json!(false)),
        ("on_bad_copy", json!("host_staged")),
        ("reduction", json!("all_reduce")),
    ];
    (proptest::sample::select(fields), value(), 0..3).prop_map(|((name, good), other, which)| {
        (name.to_owned(), if which == 0 { other } else { good })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_configuration_is_refused_or_works(fields in proptest::collection::vec(field(), 0..6)) {
        let text = Value::Object(fields.into_iter().collect()).to_string();
        let Ok(config) = DataParallelConfig::load_binary(text.as_bytes()) else {
            return Ok(());
        };
        match config.init(Mlp::new(&device())) {
            Err(error) => prop_assert!(error.to_string().len() < 2000, "{}", error),
            Ok(model) => {
                let batch: Tensor<2> = tensor([5, 3], 1, &device());
                let step = |model: &Mlp, x: Tensor<2>| model.forward(x).mean();
                let result = model.train_step(batch, step);
                // A dim that the batch has not, or a limit of less than a step, is an error of the step.
                let may_fail = config.dim != 0 || config.time_limit_seconds.is_some();
                match result {
                    Err(error) if may_fail => prop_assert!(error.to_string().len() < 2000, "{}", error),
                    result => prop_assert!(result.is_ok(), "{:?}", result.err()),
                }
            }
        }
    }
}
