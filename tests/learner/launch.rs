//! One training, described once and run in each of the ways that must be equal.

use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::module::ModuleDisplay;
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::train::checkpoint::KeepLastNCheckpoints;
use burn::train::logger::{FileMetricLogger, InMemoryMetricLogger};
use burn::train::metric::{AccuracyMetric, LearningRateMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Interrupter, Interruption, Learner, LearnerModel,
    MetricEarlyStoppingStrategy, SupervisedTraining, TrainStep, TrainingError, TrainingStrategy,
};
use burn_dp::{DataParallel, DataParallelStrategy, DeviceIds};

use crate::compare::{Values, parameters};
use crate::models::{Batch, items, loader};
use crate::watch::{Trace, Watch};

/// How a model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By burn-train alone.
    Bare,
    /// In a `DataParallel` of so many replicas.
    Wrapped(usize),
    /// By a `DataParallelStrategy` of so many replicas.
    Strategy(usize),
}

/// All ways that must equal the bare one.
pub const WAYS: [Way; 7] = [
    Way::Wrapped(1),
    Way::Wrapped(2),
    Way::Wrapped(3),
    Way::Wrapped(8),
    Way::Strategy(1),
    Way::Strategy(2),
    Way::Strategy(3),
];

/// A training.
#[derive(Clone)]
pub struct Training<'a> {
    pub train: Arc<dyn DataLoader<Batch>>,
    pub valid: Arc<dyn DataLoader<Batch>>,
    pub epochs: usize,
    pub optim: ModuleOptimizer,
    pub scheduler: ModuleLrScheduler,
    pub accumulation: Option<usize>,
    pub early_stopping: Option<MetricEarlyStoppingStrategy>,
    /// Where metrics are logged to files, of which a summary is told at the end; to memory if there is no such place.
    pub files: Option<&'a Path>,
    /// Where checkpoints are; none are written if there is no such place.
    pub checkpoints: Option<&'a Path>,
    /// The epoch to resume after.
    pub resume: Option<usize>,
    pub interrupter: Interrupter,
    pub gradient_checkpointing: bool,
}

impl Default for Training<'_> {
    /// Eleven items in batches of five: neither batches nor shards divide.
    fn default() -> Self {
        Self {
            train: loader(items(11, 1), 5),
            valid: loader(items(7, 2), 3),
            epochs: 3,
            optim: AdamConfig::new().init(),
            scheduler: 0.05.into(),
            accumulation: None,
            early_stopping: None,
            files: None,
            checkpoints: None,
            resume: None,
            interrupter: Interrupter::new(),
            gradient_checkpointing: false,
        }
    }
}

/// What came of it.
pub struct Outcome {
    pub trace: Trace,
    pub parameters: Values,
    pub interrupted: Option<Interruption>,
    pub error: Option<Arc<TrainingError>>,
}

impl Outcome {
    #[track_caller]
    pub fn assert_close(&self, what: &str, other: &Outcome) {
        self.trace.assert_close(what, &other.trace, 2e-6);
        crate::compare::assert_close(what, &self.parameters, &other.parameters, 5e-6);
    }
}

impl Training<'_> {
    pub fn run<M>(self, model: M, way: Way) -> Outcome
    where
        M: LearnerModel + ModuleDisplay,
        M: TrainStep<Input = Batch, Output = ClassificationOutput>,
        M: InferenceStep<Input = Batch, Output = ClassificationOutput>,
    {
        match way {
            Way::Bare => self.launch(model, None).0,
            Way::Wrapped(replicas) => {
                let model = DataParallel::new(model, DeviceIds::repeat(0, replicas)).unwrap();
                self.launch(model, None).0
            }
            Way::Strategy(replicas) => {
                let strategy = DataParallelStrategy::new(DeviceIds::repeat(0, replicas));
                self.launch(model, Some(strategy.into())).0
            }
        }
    }

    /// Launch with what the model is; returns the trained one as well.
    pub fn launch<M>(self, model: M, strategy: Option<TrainingStrategy<M>>) -> (Outcome, M)
    where
        M: LearnerModel,
        M: TrainStep<Input = Batch, Output = ClassificationOutput>,
        M: InferenceStep<Input = Batch, Output = ClassificationOutput>,
    {
        let watch = Watch::default();
        let directory = self
            .checkpoints
            .or(self.files)
            .unwrap_or(Path::new("unused"));
        let mut training = SupervisedTraining::new(directory, self.train, self.valid)
            .num_epochs(self.epochs)
            .metrics((LossMetric::new(), AccuracyMetric::new()))
            .metric_train_numeric(LearningRateMetric::new())
            .with_application_logger(None)
            .with_interrupter(self.interrupter)
            .renderer(Box::new(watch.clone()));
        training = match self.files {
            Some(path) => training
                .with_metric_logger(FileMetricLogger::new(path))
                .label("first try")
                .summary(),
            None => training.with_metric_logger(InMemoryMetricLogger::new()),
        };
        if self.checkpoints.is_some() {
            training = training
                .with_default_checkpointers()
                .with_checkpointing_strategy(KeepLastNCheckpoints::new(9));
        }
        if let Some(epoch) = self.resume {
            training = training.checkpoint(epoch);
        }
        if let Some(accumulation) = self.accumulation {
            training = training.grads_accumulation(accumulation);
        }
        if let Some(early_stopping) = self.early_stopping {
            training = training.early_stopping(early_stopping);
        }
        if self.gradient_checkpointing {
            training = training.gradient_checkpointing();
        }
        if let Some(strategy) = strategy {
            training = training.with_training_strategy(strategy);
        }
        let result = training.launch(Learner::new(model, self.optim, self.scheduler));
        let outcome = Outcome {
            trace: watch.trace(),
            parameters: parameters(&result.model),
            interrupted: result.interrupted,
            error: result.error,
        };
        (outcome, result.model)
    }
}
