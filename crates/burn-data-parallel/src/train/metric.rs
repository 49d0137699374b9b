//! `StepStats` as a metric of burn-train.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

use super::strategy::DataParallelStrategy;
use crate::data_parallel::DataParallel;
use crate::stats::{Meter, StepStats};

/// A number of [`StepStats`], per step, beside burn-train's own metrics: milliseconds of a phase, copies, bytes.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use burn_data_parallel::{DataParallel, DeviceIds, StepStatsMetric};
///
/// let model = LinearConfig::new(4, 2).init(&Device::flex().autodiff());
/// let model = DataParallel::new(model, DeviceIds::repeat(0, 2))?;
/// let apply = StepStatsMetric::new(&model, "Forward and backward", "ms", |stats| {
///     stats.apply.time().as_secs_f64() * 1e3
/// });
/// # let _ = apply;
/// // training.metric_train_numeric(apply)
/// # Ok::<(), burn_data_parallel::DataParallelError>(())
/// ```
///
/// burn-train computes metrics on a thread of its own, behind the steps. A value is therefore the mean of the steps since the value
/// before it, and the epoch's value their mean.
#[derive(Clone)]
pub struct StepStatsMetric {
    name: MetricName,
    unit: String,
    read: fn(&StepStats) -> f64,
    meter: Arc<Meter>,
    seen: StepStats,
    last: f64,
    state: NumericMetricState,
}

impl StepStatsMetric {
    /// What `read` makes of the stats of the steps of `model` and its clones, divided by their number.
    pub fn new<M: Module>(
        model: &DataParallel<M>,
        name: &str,
        unit: &str,
        read: fn(&StepStats) -> f64,
    ) -> Self {
        Self::of(model.shared.meter.clone(), name, unit, read)
    }

    /// The same for the wrapper that `strategy` makes when training starts.
    pub fn of_strategy(
        strategy: &DataParallelStrategy,
        name: &str,
        unit: &str,
        read: fn(&StepStats) -> f64,
    ) -> Self {
        Self::of(strategy.meter.clone(), name, unit, read)
    }

    fn of(meter: Arc<Meter>, name: &str, unit: &str, read: fn(&StepStats) -> f64) -> Self {
        Self {
            name: Arc::new(name.into()),
            unit: unit.into(),
            read,
            seen: meter.total(),
            meter,
            last: 0.0,
            state: NumericMetricState::new(),
        }
    }

    fn format(&self) -> FormatOptions {
        FormatOptions::new(self.name())
            .unit(&self.unit)
            .precision(3)
    }
}

impl Metric for StepStatsMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes {
            unit: Some(self.unit.clone()),
            higher_is_better: false,
        }
        .into()
    }

    fn update(
        &mut self,
        _item: &(),
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let total = self.meter.total();
        let steps = total.steps - self.seen.steps;
        if steps > 0 {
            self.last = ((self.read)(&total) - (self.read)(&self.seen)) / steps as f64;
            self.seen = total;
        }
        self.state.update(self.last, 1);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.state.reset();
    }
}

impl Numeric for StepStatsMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}
