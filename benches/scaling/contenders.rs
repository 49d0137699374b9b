//! The ways of training that are compared.

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use burn_dp::{
    DataParallel, DataParallelError, RandomOrder, Reduction, ReplicatedOptimizer, StepStats,
};

use crate::models::{Batch, Net};
use crate::options::Devices;

const LR: f64 = 1e-4;

/// Something that can train a step.
pub trait Contender {
    fn name(&self) -> String;
    fn replicas(&self) -> usize;
    fn step(&mut self) -> Result<(), DataParallelError>;
    /// Wait until all devices are done.
    fn sync(&self);
    /// Cost by phase of all steps so far, where it is known.
    fn stats(&self) -> Option<StepStats> {
        None
    }
}

fn sync_all(devices: &[Device]) {
    for device in devices {
        // A device that cannot be synchronized shows in the next step.
        let _ = device.sync();
    }
}

/// Burn's own loop on one device.
pub struct Bare {
    pub net: Option<Net>,
    pub optim: ModuleOptimizer,
    pub batch: Batch,
    pub device: Device,
}

impl Bare {
    pub fn new(net: Net, batch: Batch, device: Device) -> Self {
        Self {
            net: Some(net),
            optim: AdamConfig::new().init(),
            batch,
            device,
        }
    }
}

impl Contender for Bare {
    fn name(&self) -> String {
        "bare Burn".into()
    }

    fn replicas(&self) -> usize {
        1
    }

    fn step(&mut self) -> Result<(), DataParallelError> {
        self.net = self.net.take().map(|net| {
            let loss = net.loss(self.batch.clone());
            let grads = GradientsParams::from_grads(loss.backward(), &net);
            self.optim.step(LR, net, grads)
        });
        Ok(())
    }

    fn sync(&self) {
        sync_all(std::slice::from_ref(&self.device));
    }
}

/// This project's wrapper.
pub struct Wrapped {
    model: Option<DataParallel<Net>>,
    optim: ModuleOptimizer,
    batch: Batch,
    devices: Vec<Device>,
}

impl Wrapped {
    pub fn new(
        net: Net,
        batch: Batch,
        devices: &Devices,
        count: usize,
    ) -> Result<Self, DataParallelError> {
        // No peer takes turns, and the transformer's dropout, of probability 0, draws nothing.
        let config = burn_dp::DataParallelConfig::new()
            .with_allow_repeated(true)
            .with_random_order(RandomOrder::Free);
        Ok(Self {
            model: Some(config.init_on(net, devices.ids(count))?),
            optim: AdamConfig::new().init(),
            batch,
            devices: devices.take(count),
        })
    }
}

impl Contender for Wrapped {
    fn name(&self) -> String {
        "burn-dp".into()
    }

    fn replicas(&self) -> usize {
        self.devices.len()
    }

    fn step(&mut self) -> Result<(), DataParallelError> {
        if let Some(model) = self.model.take() {
            let step = model.train_step(self.batch.clone(), |net: &Net, shard| net.loss(shard));
            let (_loss, grads) = step?;
            self.model = Some(self.optim.step(LR, model, grads));
        }
        Ok(())
    }

    fn sync(&self) {
        sync_all(&self.devices);
    }

    fn stats(&self) -> Option<StepStats> {
        self.model.as_ref().map(DataParallel::total_stats)
    }
}

/// The wrapper with an optimizer on every replica.
pub struct AllReduced {
    model: DataParallel<Net>,
    optim: ReplicatedOptimizer,
    batch: Batch,
    devices: Vec<Device>,
}

impl AllReduced {
    pub fn new(
        net: Net,
        batch: Batch,
        devices: &Devices,
        count: usize,
    ) -> Result<Self, DataParallelError> {
        let config = burn_dp::DataParallelConfig::new()
            .with_reduction(Reduction::AllReduce)
            .with_random_order(RandomOrder::Free);
        Ok(Self {
            model: config.init_on(net, devices.ids(count))?,
            optim: ReplicatedOptimizer::new(AdamConfig::new().init()),
            batch,
            devices: devices.take(count),
        })
    }
}

impl Contender for AllReduced {
    fn name(&self) -> String {
        "burn-dp all-reduce".into()
    }

    fn replicas(&self) -> usize {
        self.devices.len()
    }

    fn step(&mut self) -> Result<(), DataParallelError> {
        let step = |net: &Net, shard| net.loss(shard);
        let batch = self.batch.clone();
        let trained = self.optim.train_step(LR, &mut self.model, batch, step);
        trained.map(|_loss| ())
    }

    fn sync(&self) {
        sync_all(&self.devices);
    }

    fn stats(&self) -> Option<StepStats> {
        Some(self.model.total_stats())
    }
}

#[cfg(feature = "train")]
pub use multi_device::MultiDevice;

#[cfg(feature = "train")]
mod multi_device {
    //! burn-train's MultiDevice strategy, `OptimMainDevice`: its step, and what its epoch does around it.

    use burn::data::dataloader::{DataLoaderIterator, Progress};
    use burn::data::dataset::DatasetError;
    use burn::optim::GradientsAccumulator;
    use burn::tensor::Tensor;
    use burn::train::train::MultiDevicesTrainStep;
    use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};

    use super::*;

    impl TrainStep for Net {
        type Input = Batch;
        type Output = RegressionOutput;

        fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
            let loss = self.loss(batch);
            let item = item(loss.clone());
            TrainOutput::new(self, loss.backward(), item)
        }
    }

    impl InferenceStep for Net {
        type Input = Batch;
        type Output = RegressionOutput;

        fn step(&self, batch: Batch) -> RegressionOutput {
            item(self.loss(batch))
        }
    }

    fn item(loss: Tensor<1>) -> RegressionOutput {
        let value = loss.clone().detach().unsqueeze::<2>();
        RegressionOutput::new(loss, value.clone(), value)
    }

    /// The same shard for ever: data that is already where it is needed.
    struct Shards(Batch);

    impl Iterator for Shards {
        type Item = Result<Batch, DatasetError>;

        fn next(&mut self) -> Option<Self::Item> {
            Some(Ok(self.0.clone()))
        }
    }

    impl DataLoaderIterator<Batch> for Shards {
        fn progress(&self) -> Progress {
            Progress::new(0, 1, None)
        }
    }

    pub struct MultiDevice {
        net: Option<Net>,
        optim: ModuleOptimizer,
        step: MultiDevicesTrainStep<Net>,
        loaders: Vec<Box<dyn DataLoaderIterator<Batch>>>,
        devices: Vec<Device>,
    }

    impl MultiDevice {
        pub fn new(net: Net, batch: &Batch, devices: &Devices, count: usize) -> Self {
            let devices = devices.take(count);
            let sizes = burn_dp::balanced_sizes(batch.targets.dims()[0], count);
            let mut start = 0;
            let loaders = sizes
                .iter()
                .zip(&devices)
                .map(|(&rows, device)| {
                    start += rows;
                    let shard = Shards(batch.rows(start - rows, rows, device));
                    Box::new(shard) as Box<dyn DataLoaderIterator<Batch>>
                })
                .collect();
            Self {
                net: Some(net),
                optim: AdamConfig::new().init(),
                step: MultiDevicesTrainStep::new(&devices),
                loaders,
                devices,
            }
        }
    }

    impl Contender for MultiDevice {
        fn name(&self) -> String {
            "burn-train MultiDevice".into()
        }

        fn replicas(&self) -> usize {
            self.devices.len()
        }

        fn step(&mut self) -> Result<(), DataParallelError> {
            let Some(net) = self.net.take() else {
                return Ok(());
            };
            let (items, _) = match self.step.step(&mut self.loaders, &net) {
                Ok(items) => items,
                Err(error) => panic!("burn-train's step failed: {error}"),
            };
            let mut accumulator = GradientsAccumulator::new();
            for item in items {
                accumulator.accumulate(&net, item.output.grads.to_device(&self.devices[0], &net));
            }
            self.net = Some(self.optim.step(LR, net, accumulator.grads()));
            Ok(())
        }

        fn sync(&self) {
            sync_all(&self.devices);
        }
    }
}

/// Copies of `net` that share nothing, so that each contender trains its own.
pub fn copy(net: &Net, device: &Device) -> Net {
    net.clone().fork(device)
}
