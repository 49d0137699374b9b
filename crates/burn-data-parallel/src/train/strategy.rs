//! A learning strategy of burn-train that wraps the model for as long as it trains.

use std::sync::Arc;

use burn::tensor::Device;
use burn::train::train::WorkerFailure;
use burn::train::{
    EventProcessorTraining, InferenceStep, Learner, LearnerModel, SupervisedLearningStrategy,
    SupervisedTrainingEventProcessor, TrainLoader, TrainStep, TrainingComponents, TrainingError,
    TrainingStrategy, ValidLoader,
};

use super::epoch::Epochs;
use crate::config::DataParallelConfig;
use crate::data_parallel::DataParallel;
use crate::device_ids::DeviceIds;
use crate::error::DataParallelError;
use crate::gather::Gather;
use crate::scatter::Scatter;
use crate::stats::Meter;

/// Data parallelism as a learning strategy of burn-train: the `Learner` has the bare model, and gives it back bare.
///
/// ```
/// # use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
/// # use burn::data::dataset::InMemDataset;
/// # use burn::module::Module;
/// # use burn::nn::{Linear, LinearConfig};
/// # use burn::optim::SgdConfig;
/// # use burn::tensor::{Device, Tensor};
/// # use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
/// # use burn::train::renderer::CliMetricsRenderer;
/// # #[derive(Module, Debug)]
/// # struct Model { linear: Linear }
/// # impl TrainStep for Model {
/// #     type Input = Tensor<2>;
/// #     type Output = RegressionOutput;
/// #     fn step(&self, inputs: Tensor<2>) -> TrainOutput<RegressionOutput> {
/// #         let output = InferenceStep::step(self, inputs);
/// #         TrainOutput::new(self, output.loss.backward(), output)
/// #     }
/// # }
/// # impl InferenceStep for Model {
/// #     type Input = Tensor<2>;
/// #     type Output = RegressionOutput;
/// #     fn step(&self, inputs: Tensor<2>) -> RegressionOutput {
/// #         let output = self.linear.forward(inputs.clone());
/// #         RegressionOutput::new((output.clone() - inputs.clone()).abs().mean(), output, inputs)
/// #     }
/// # }
/// # struct ToTensor;
/// # impl Batcher<f32, Tensor<2>> for ToTensor {
/// #     fn batch(&self, items: Vec<f32>, device: &Device) -> Tensor<2> {
/// #         Tensor::<1>::from_floats(items.as_slice(), device).unsqueeze_dim(1)
/// #     }
/// # }
/// # let loader = || DataLoaderBuilder::new(ToTensor).batch_size(4).build(InMemDataset::new(vec![0.5f32; 6]));
/// # let (train, valid) = (loader(), loader());
/// # let directory = std::env::temp_dir();
/// # let model = Model { linear: LinearConfig::new(1, 1).init(&Device::flex().autodiff()) };
/// use burn::train::logger::InMemoryMetricLogger;
/// use burn::train::metric::LossMetric;
/// use burn::train::{Learner, SupervisedTraining};
/// use burn_data_parallel::{DataParallelStrategy, DeviceIds};
///
/// let result = SupervisedTraining::new(directory, train, valid)
///     .with_training_strategy(DataParallelStrategy::new(DeviceIds::repeat(0, 2)).into())
///     .metrics((LossMetric::new(),))
///     .with_metric_logger(InMemoryMetricLogger::new())
///     .with_application_logger(None)
///     .num_epochs(1)
///     .launch(Learner::new(model, SgdConfig::new().init(), 0.1));
///
/// assert!(result.error.is_none());
/// let model: Model = result.model;
/// ```
///
/// Against wrapping the model in a [`DataParallel`] for the `Learner`:
///
/// - A failure of a replica or of a device ends the training and is in `LearningResult::error`; there it is a panic.
/// - `SupervisedTraining::gradient_checkpointing` has no effect, because burn-train does not pass it to strategies. Make the
///   model on `device.autodiff().gradient_checkpointing()` instead.
///
/// What the loss must be, and where batches are made, is as for a wrapped model ([`TrainStep`]). Checkpoints are those of the bare
/// model, and can be resumed by either way.
#[derive(Clone, Debug)]
pub struct DataParallelStrategy {
    device_ids: DeviceIds,
    config: DataParallelConfig,
    /// Of the wrapper that is made when training starts.
    pub(super) meter: Arc<Meter>,
}

impl DataParallelStrategy {
    /// Train on `device_ids`; the first is the primary, and the model is moved there.
    ///
    /// The ids are looked up when training starts; where they do not fit, `LearningResult::error` says so.
    pub fn new(device_ids: impl Into<DeviceIds>) -> Self {
        Self {
            device_ids: device_ids.into(),
            config: DataParallelConfig::new(),
            meter: Arc::default(),
        }
    }

    /// The same devices with the other options of `config`; its [`device_ids`](DataParallelConfig::device_ids) are not used.
    pub fn with_config(mut self, config: DataParallelConfig) -> Self {
        self.config = config;
        self
    }

    /// The model of `learner` on all devices, and the learner's own on the primary.
    fn wrap<M: LearnerModel>(
        &self,
        learner: &mut Learner<M>,
    ) -> Result<DataParallel<M>, DataParallelError> {
        let mut wrapper = self
            .config
            .init_on(learner.model(), self.device_ids.clone())?;
        // Nobody else has the new wrapper yet.
        if let Some(shared) = Arc::get_mut(&mut wrapper.shared) {
            shared.meter = self.meter.clone();
        }
        learner.fork(wrapper.primary());
        Ok(wrapper.map_module(|_| learner.model()))
    }
}

/// A strategy on the device ids of a configuration, such as one loaded from a file.
impl From<DataParallelConfig> for DataParallelStrategy {
    fn from(config: DataParallelConfig) -> Self {
        Self {
            device_ids: config.ids(),
            config,
            meter: Arc::default(),
        }
    }
}

impl<M> From<DataParallelStrategy> for TrainingStrategy<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: Scatter,
    <M as TrainStep>::Output: Gather,
    <M as InferenceStep>::Input: Scatter,
    <M as InferenceStep>::Output: Gather,
{
    fn from(strategy: DataParallelStrategy) -> Self {
        TrainingStrategy::Custom(Arc::new(strategy))
    }
}

impl<M> SupervisedLearningStrategy<M> for DataParallelStrategy
where
    M: LearnerModel,
    <M as TrainStep>::Input: Scatter,
    <M as TrainStep>::Output: Gather,
    <M as InferenceStep>::Input: Scatter,
    <M as InferenceStep>::Output: Gather,
{
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let wrapper = match self.wrap(&mut learner) {
            Ok(wrapper) => wrapper,
            Err(error) => {
                components.interrupter.fail(failure(&error));
                return (learner.model(), components.event_processor);
            }
        };
        let primary: &Device = wrapper.primary();
        let mut epochs = Epochs {
            train: train.to_device(primary),
            valid: valid.to_device(&primary.clone().inner()),
            accumulation: components.grad_accumulation,
            interrupter: components.interrupter,
            processor: components.event_processor,
            learner,
            wrapper,
        };
        let mut checkpointer = components.checkpointer;
        let mut early_stopping = components.early_stopping;
        for epoch in starting_epoch..=components.num_epochs {
            epochs.run_train(epoch);
            if epochs.interrupter.should_stop() {
                break;
            }
            epochs.run_valid(epoch);
            if checkpointer.is_some() || early_stopping.is_some() {
                // Both read the epoch's metrics, which are computed on another thread.
                let flushed = epochs.processor.flush();
                epochs.interrupter.fail_on_error(flushed);
            }
            if epochs.interrupter.should_stop() {
                break;
            }
            if let Some(checkpointer) = &mut checkpointer {
                checkpointer.checkpoint(&epochs.learner, epoch, &components.event_store);
            }
            if let Some(early_stopping) = &mut early_stopping
                && early_stopping.should_stop(epoch, &components.event_store)
            {
                break;
            }
        }
        (epochs.learner.model(), epochs.processor)
    }
}

/// The error as burn-train's `TrainingError`, which has no case for others' errors but that of a worker.
pub(super) fn failure(error: &DataParallelError) -> TrainingError {
    let device_id = match error {
        DataParallelError::Replica { replica, .. } => *replica,
        _ => 0,
    };
    TrainingError::Workers(vec![WorkerFailure {
        device_id,
        message: error.to_string(),
    }])
}
