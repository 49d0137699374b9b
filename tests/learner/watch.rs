//! A renderer that keeps what burn-train tells it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId, NumericEntry};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

/// All that was told, in order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Starts, ends, item counts, and the counts behind metrics: equal in two runs that are equal.
    pub marks: Vec<String>,
    /// Values of metrics, by split and name.
    pub values: Vec<(String, f64)>,
}

impl Trace {
    /// Assert that `self` and `other` tell of the same training.
    #[track_caller]
    pub fn assert_close(&self, what: &str, other: &Trace, tolerance: f64) {
        assert!(!other.values.is_empty(), "{what}: no metric to compare");
        assert_eq!(self.marks, other.marks, "{what}: other counts");
        assert_eq!(
            self.values.len(),
            other.values.len(),
            "{what}: other metrics"
        );
        for ((name, left), (other_name, right)) in self.values.iter().zip(&other.values) {
            assert_eq!(name, other_name, "{what}: other metrics");
            let difference = (left - right).abs();
            // The mean of no items is not a number, on both sides.
            assert!(
                difference <= tolerance || (left.is_nan() && right.is_nan()),
                "{what}, {name}: {left} and {right} differ by {difference:e}"
            );
        }
    }

    /// How often `mark` was told.
    pub fn count(&self, mark: &str) -> usize {
        self.marks.iter().filter(|other| *other == mark).count()
    }

    /// All values of one metric, in order.
    pub fn of(&self, name: &str) -> Vec<f64> {
        self.values
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| *value)
            .collect()
    }
}

/// Clones share one trace.
#[derive(Clone, Default)]
pub struct Watch {
    trace: Arc<Mutex<Trace>>,
    names: HashMap<MetricId, String>,
}

impl Watch {
    pub fn trace(&self) -> Trace {
        self.locked(|trace| trace.clone())
    }

    fn locked<T>(&self, change: impl FnOnce(&mut Trace) -> T) -> T {
        change(&mut self.trace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn mark(&self, mark: impl Into<String>) {
        self.locked(|trace| trace.marks.push(mark.into()));
    }

    fn metric(&self, split: &str, state: MetricState) {
        let MetricState::Numeric(entry, value) = state else {
            return;
        };
        let name = format!("{split} {}", self.names[&entry.metric_id]);
        match value {
            Some(NumericEntry::Aggregated {
                aggregated_value,
                count,
            }) => self.locked(|trace| {
                trace.marks.push(format!("{name} of {count}"));
                trace.values.push((name, aggregated_value));
            }),
            Some(NumericEntry::Value(value) | NumericEntry::Final(value)) => {
                self.locked(|trace| trace.values.push((name, value)));
            }
            None => self.mark(format!("{name} has no value")),
        }
    }
}

impl MetricsRendererTraining for Watch {
    fn update_train(&mut self, state: MetricState) {
        self.metric("train", state);
    }
    fn update_valid(&mut self, state: MetricState) {
        self.metric("valid", state);
    }
    fn on_train_end(
        &mut self,
        summary: Option<LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        // Not its numbers: burn-train reads them from files that another thread may still be writing.
        if summary.is_some() {
            self.mark("summary");
        }
        Ok(())
    }
}

impl MetricsRendererEvaluation for Watch {
    fn update_test(&mut self, name: EvaluationName, state: MetricState) {
        self.metric(name.as_str(), state);
    }
}

impl TrainingProgressLogger for Watch {
    fn start(
        &mut self,
        total_epochs: usize,
        starting_epoch: usize,
        _total_items: Option<usize>,
        label: Option<&str>,
    ) {
        self.mark(format!(
            "epochs {starting_epoch} to {total_epochs}, label {label:?}"
        ));
    }
    fn update_epoch(&mut self, epoch: usize) {
        self.mark(format!("epoch {epoch} done"));
    }
    fn start_split(&mut self, split: &str, total_items: usize) {
        self.mark(format!("{split}: {total_items} items"));
    }
    fn update_split(&mut self, items_processed: usize) {
        self.mark(format!("{items_processed} items done"));
    }
    fn end_split(&mut self) {
        self.mark("split done");
    }
    fn end(&mut self) {
        self.mark("done");
    }
    fn log_event_training(&mut self, event: String) {
        self.mark(event);
    }
}

impl EvaluationProgressLogger for Watch {
    fn start_global_progress(&mut self, total_tests: usize) {
        self.mark(format!("{total_tests} tests"));
    }
    fn start_test(&mut self, name: &str, total_items: usize) {
        self.mark(format!("{name}: {total_items} items"));
    }
    fn update_test_progress(&mut self, items_processed: usize) {
        self.mark(format!("{items_processed} items done"));
    }
    fn end_test(&mut self) {
        self.mark("test done");
    }
    fn end_global_progress(&mut self) {
        self.mark("tests done");
    }
    fn log_event_evaluation(&mut self, event: String) {
        self.mark(event);
    }
}

impl MetricsRenderer for Watch {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names
            .insert(definition.metric_id, definition.name.to_string());
    }
}
