//! The epochs of [`DataParallelStrategy`](super::DataParallelStrategy): burn-train's own loop, with steps on all replicas.

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::train::{
    EventProcessorTraining, InferenceStep, Interrupter, Learner, LearnerEvent, LearnerModel,
    SupervisedTrainingEventProcessor, TrainLoader, TrainStep, TrainingItem, ValidLoader,
};

use super::strategy::failure;
use crate::data_parallel::DataParallel;
use crate::gather::Gather;
use crate::scatter::Scatter;

pub(super) struct Epochs<M: LearnerModel> {
    pub(super) train: TrainLoader<M>,
    pub(super) valid: ValidLoader<M>,
    pub(super) accumulation: Option<usize>,
    pub(super) interrupter: Interrupter,
    pub(super) processor: SupervisedTrainingEventProcessor<M>,
    /// Has the optimizer and the scheduler, and the model that they change.
    pub(super) learner: Learner<M>,
    /// Always around the learner's current model.
    pub(super) wrapper: DataParallel<M>,
}

impl<M> Epochs<M>
where
    M: LearnerModel,
    <M as TrainStep>::Input: Scatter,
    <M as TrainStep>::Output: Gather,
    <M as InferenceStep>::Input: Scatter,
    <M as InferenceStep>::Output: Gather,
{
    /// All training batches once.
    pub(super) fn run_train(&mut self, epoch: usize) {
        self.train_event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: self.train.num_items(),
        });
        let loader = self.train.clone();
        let mut batches = loader.iter();
        let mut accumulator = GradientsAccumulator::new();
        let (mut iteration, mut accumulated) = (0, 0);
        while let Some((batch, progress)) = next(&mut *batches, &self.interrupter) {
            iteration += 1;
            let output = match self.wrapper.learn(batch) {
                Ok(output) => output,
                Err(error) => {
                    self.interrupter.fail(failure(&error));
                    break;
                }
            };
            match self.accumulation {
                None => self.optimize(output.grads),
                Some(every) => {
                    accumulator.accumulate(self.wrapper.module(), output.grads);
                    accumulated += 1;
                    if accumulated >= every || progress.is_completed() {
                        self.optimize(accumulator.grads());
                        accumulated = 0;
                    }
                }
            }
            self.train_event(LearnerEvent::ProcessedItem(TrainingItem::new(
                output.item,
                progress,
                Some(iteration),
                Some(self.learner.lr_current()),
            )));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.train_event(LearnerEvent::EndSplit(epoch));
    }

    /// All validation batches once, on all replicas.
    pub(super) fn run_valid(&mut self, epoch: usize) {
        self.valid_event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: self.valid.num_items(),
        });
        let model = self.wrapper.valid();
        let loader = self.valid.clone();
        let mut batches = loader.iter();
        let mut iteration = 0;
        while let Some((batch, progress)) = next(&mut *batches, &self.interrupter) {
            iteration += 1;
            let output = match model.infer(batch) {
                Ok(output) => output,
                Err(error) => {
                    self.interrupter.fail(failure(&error));
                    break;
                }
            };
            self.valid_event(LearnerEvent::ProcessedItem(TrainingItem::new(
                output,
                progress,
                Some(iteration),
                None,
            )));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.valid_event(LearnerEvent::EndSplit(epoch));
        self.train_event(LearnerEvent::EndEpoch(epoch));
    }

    fn optimize(&mut self, grads: GradientsParams) {
        let learner = &mut self.learner;
        learner.lr_step();
        self.wrapper = self.wrapper.clone().changed(|_| {
            learner.optimizer_step(grads);
            learner.model()
        });
    }

    fn train_event(&mut self, event: LearnerEvent<<M as TrainStep>::Output>) {
        let processed = self.processor.process_train(event);
        self.interrupter.fail_on_error(processed);
    }

    fn valid_event(&mut self, event: LearnerEvent<<M as InferenceStep>::Output>) {
        let processed = self.processor.process_valid(event);
        self.interrupter.fail_on_error(processed);
    }
}

/// The next batch and the progress with it; none at the end, or where it cannot be read, which ends the training.
fn next<B>(
    batches: &mut (dyn DataLoaderIterator<B> + '_),
    interrupter: &Interrupter,
) -> Option<(B, Progress)> {
    match batches.next()? {
        Ok(batch) => Some((batch, batches.progress())),
        Err(error) => {
            interrupter.fail(error);
            None
        }
    }
}
