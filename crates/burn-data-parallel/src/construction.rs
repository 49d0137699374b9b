//! How a wrapper is made: devices resolved, threads started, copies tried, the model moved to the primary.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Device, Int, Tensor};

use crate::all_reduce::Transport;
use crate::config::{DataParallelConfig, Reduction};
use crate::data_parallel::{DataParallel, Shared, next_version};
use crate::device_ids::{DeviceIds, Resolved, check_distinct};
use crate::error::DataParallelError;
use crate::inspect::{check_placement, describe, has_leaves_only};
use crate::kept::private_copy;
use crate::listing::{has_collective, is_local};
use crate::reading::Reading;
use crate::replicas::Replicas;
use crate::routes::Routes;
use crate::self_check;
use crate::snapshot::{Link, Scope, Take};
use crate::stats::Traffic;
use crate::watch::Watch;
use crate::workers::Workers;

impl<M: Module> DataParallel<M> {
    pub(crate) fn build(
        model: M,
        device_ids: DeviceIds,
        config: &DataParallelConfig,
    ) -> Result<Self, DataParallelError> {
        config.check()?;
        let model_device = model.devices().into_iter().next();
        let resolved = device_ids.resolve(model_device.as_ref(), config.allow_repeated)?;
        let devices = match &model_device {
            Some(device) => in_context_of(device, &resolved.devices),
            None => resolved.devices.clone(),
        };
        let output_device = output_device(config.output_device, &resolved, &devices)?;
        if config.strict {
            check_placement(&model, &devices[0])?;
        }
        let names: Vec<String> = devices
            .iter()
            .enumerate()
            .map(|(replica, device)| format!("replica {replica} {}", describe(device)))
            .collect();
        let workers = Workers::start(&names)?;
        log::info!(
            "data parallel on {} ({}): {}",
            if devices.len() == 1 {
                "one device".into()
            } else {
                format!("{} devices", devices.len())
            },
            resolved.reason,
            names.join(", "),
        );
        for warning in &resolved.warnings {
            log::warn!("{warning}");
        }
        let watch = config.limit().map(Watch::start).transpose()?;
        let routes = Arc::new(check_copies(config, &devices, watch.as_ref())?);
        let all_reduce = transport(config.reduction, &devices, &routes)?;
        let module = onto(model, &devices[0], &Traffic::on(&routes));
        Ok(Self {
            module,
            version: next_version(),
            replicas: Replicas::shared(devices.len()),
            shared: Arc::new(Shared {
                ordinals: resolved.ordinals,
                local: devices.iter().all(is_local),
                apart: devices.iter().any(|device| *device != devices[0]),
                devices,
                output_device,
                dim: config.dim,
                random_order: config.random_order,
                bucket_bytes: config.bucket_bytes,
                workers,
                meter: Arc::default(),
                watch,
                routes,
                all_reduce,
                #[cfg(feature = "fault-injection")]
                faults: crate::faults::Faults::current(),
                training: Mutex::new(()),
            }),
        })
    }
}

/// The devices with the model's autodiff setting, so that data made on them takes part in training as on the model's own.
fn in_context_of(device: &Device, devices: &[Device]) -> Vec<Device> {
    devices
        .iter()
        .map(|other| other.clone().with_autodiff_context_from(device))
        .collect()
}

fn output_device(
    asked: Option<usize>,
    resolved: &Resolved,
    devices: &[Device],
) -> Result<Device, DataParallelError> {
    let Some(asked) = asked else {
        return Ok(devices[0].clone());
    };
    let position = match &resolved.ordinals {
        Some(ordinals) => ordinals.iter().position(|&id| id == asked),
        None => Some(asked),
    };
    position
        .and_then(|position| devices.get(position).cloned())
        .ok_or_else(|| DataParallelError::OutputDevice {
            output_device: asked,
            device_ids: match &resolved.ordinals {
                Some(ordinals) => format!("{ordinals:?}"),
                None => format!("(positions 0 to {})", devices.len() - 1),
            },
        })
}

/// By what an all-reduce between `devices` goes; none where gradients are reduced onto the primary.
fn transport(
    reduction: Reduction,
    devices: &[Device],
    routes: &Routes,
) -> Result<Option<Transport>, DataParallelError> {
    // A collective finds its own way between the cards, so not where some copies are known to go wrong.
    let collective =
        devices.len() > 1 && has_collective(devices) && routes.staged_among(devices).is_none();
    match reduction {
        Reduction::Primary => Ok(None),
        Reduction::Auto => {
            Ok((collective && check_distinct(devices).is_ok()).then_some(Transport::Collective))
        }
        Reduction::AllReduce => {
            check_distinct(devices)?;
            Ok(Some(if collective {
                Transport::Collective
            } else {
                Transport::Tree
            }))
        }
    }
}

/// The routes between `devices`, once their copies have been tried where `config` says so.
fn check_copies(
    config: &DataParallelConfig,
    devices: &[Device],
    watch: Option<&Watch>,
) -> Result<Routes, DataParallelError> {
    let mut routes = Routes::new();
    if !config.self_check {
        return Ok(routes);
    }
    let (devices, on_bad_copy) = (devices.to_vec(), config.on_bad_copy);
    // The pair that is tried, for the message where no copy arrives.
    let trying = Arc::new(Mutex::new(None));
    let tried = trying.clone();
    let check = move || {
        self_check::check(&devices, &mut routes, on_bad_copy, &trying)?;
        Ok(routes)
    };
    let Some(watch) = watch else { return check() };
    watch.run(move |_| check()).unwrap_or_else(|_| {
        let pair = tried.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (from, into) = pair.unwrap_or_else(|| ("any".into(), "any other".into()));
        Err(DataParallelError::SelfCheck {
            from,
            into,
            problem: format!("nothing had arrived after {:?}", watch.limit),
        })
    })
}

/// `model` on `device`: every parameter initialized and a leaf, tied parameters still tied, and clones elsewhere untouched.
fn onto<M: Module>(model: M, device: &Device, traffic: &Traffic) -> M {
    model.visit(&mut Initialize);
    if model.devices().iter().all(|other| other == device) && has_leaves_only(&model) {
        return model;
    }
    let reading = Arc::new(Reading::of(&model, device, None));
    // Forked too, for tensors that are no parameters: no snapshot sees them.
    let copy = private_copy(&model, reading.traits).fork(device);
    let take = Take {
        reading: &reading,
        device,
        link: Link::Leaf,
        scope: Scope::All,
        traffic,
    };
    take.values(&model).restore(copy)
}

/// Lazy parameters draw their values when first read; reading them here makes all replicas copies of one draw.
struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.base();
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        param.val();
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        param.val();
    }
}
