//! What is scattered and gathered again is what it was, for any structure, dim and kind.

use burn::module::Module;
use burn::tensor::Device;
use burn_dp::{BatchInspector, DataParallelConfig, DeviceIds, PerReplica, Scatter};
use proptest::prelude::*;

use crate::config;
use crate::models::{Mlp, device};
use crate::value::{Exact, Value, value};

#[derive(Clone, Debug)]
pub struct Case {
    rows: usize,
    dim: usize,
    training: bool,
    value: Value,
}

pub fn case() -> impl Strategy<Value = Case> {
    (0usize..=20, 0usize..3, any::<bool>()).prop_flat_map(|(rows, dim, training)| {
        let device = if training { device() } else { Device::flex() };
        value(rows, dim, device).prop_map(move |value| Case {
            rows,
            dim,
            training,
            value,
        })
    })
}

impl Case {
    /// The value through `forward` is what it was, and as many replicas have run as it has rows for.
    pub fn assert_returns(self, ids: DeviceIds) {
        let mut inspector = BatchInspector::new(self.dim);
        self.value.inspect(&mut inspector);
        let rows = inspector.finish().expect("all rows are equal");
        assert!(rows.is_none_or(|rows| rows == self.rows), "{rows:?} rows");
        let model = DataParallelConfig::new()
            .with_dim(self.dim)
            .init_on(Mlp::new(&device()), ids)
            .expect("it wraps");
        let used = rows.map_or(1, |rows| model.replica_count().min(rows).max(1));
        let model = if self.training { model } else { model.valid() };
        let expected = self.value.exact();
        let (found, ran) = model
            .forward(self.value, |_: &Mlp, shard: Value| {
                (shard, PerReplica(vec![()]))
            })
            .expect("forward works");
        assert_eq!(found.exact(), expected);
        assert_eq!(ran.0.len(), used, "replicas that ran");
    }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn what_goes_through_forward_comes_back(case in case(), replicas in 1usize..=8) {
        case.assert_returns(DeviceIds::repeat(0, replicas));
    }
}
