//! What the engine reads off a module, in one visit, whenever its values have changed.

use std::collections::{HashMap, HashSet};

use burn::module::{Flag, Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{
    Bool, DType, Device, GradientCheckpointingStrategy, Int, Shape, Tensor, kind::Autodiff,
};

use crate::running::running_state;
use crate::tied::tied_places;

/// The kind of a parameter's tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Float,
    Int,
    Bool,
}

/// One parameter, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: ParamId,
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) requires_grad: bool,
    /// The autodiff setting of the parameter's tensor; none where it has no autodiff.
    pub(crate) context: Option<GradientCheckpointingStrategy>,
}

/// `tensor`, which has no autodiff, with this autodiff setting: outside any graph.
pub(crate) fn in_context<const D: usize, K: Autodiff>(
    tensor: Tensor<D, K>,
    context: Option<GradientCheckpointingStrategy>,
) -> Tensor<D, K> {
    match context {
        Some(strategy) => tensor
            .autodiff()
            .with_gradient_checkpointing_strategy(strategy),
        None => tensor,
    }
}

/// What the engine must know of a module before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Some parameter is on an autodiff device: the module is in training mode.
    pub(crate) autodiff: bool,
    /// Some value changes in forward, such as running statistics.
    pub(crate) buffers: bool,
    /// Some layer draws random numbers in forward.
    pub(crate) random: bool,
    /// Some parameter is not on the primary.
    pub(crate) misplaced: bool,
}

/// A module's parameters in order of visit, and its traits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) parts: Vec<Part>,
    flags: Vec<ParamId>,
    pub(crate) traits: Traits,
    /// The values that change in forward; none where it was not looked for them.
    running: Option<HashSet<ParamId>>,
    /// For each parameter that stands in several places, in order of visit: which of them belong together. Empty where none
    /// does.
    ///
    /// Burn ties weights by giving one `Param` to two fields. Its optimizers step the first place alone (the gradient is taken
    /// out of `GradientsParams` there), records load each place for itself, and one place may be frozen: then places share an
    /// id, but no longer a leaf or a value. Replicas must be as tied as the primary is.
    pub(crate) tied: HashMap<ParamId, Vec<usize>>,
}

impl Reading {
    /// Read `module`, which should be on `primary`; `old` is an earlier reading of it, if there is one.
    pub(crate) fn of<M: Module>(module: &M, primary: &Device, old: Option<&Self>) -> Self {
        let mut reader = Reader {
            reading: Self::default(),
            seen: HashSet::new(),
            repeated: HashSet::new(),
            primary,
            batch_norm: Vec::new(),
            has_candidates: false,
        };
        module.visit(&mut reader);
        let Reader {
            mut reading,
            repeated,
            has_candidates,
            ..
        } = reader;
        if has_candidates {
            let old = old.filter(|old| old.has_parts_of(&reading));
            let known = old.and_then(|old| old.running.clone());
            let running = known.unwrap_or_else(|| running_state(module));
            reading.traits.buffers = !running.is_empty();
            reading.running = Some(running);
        }
        if !repeated.is_empty() {
            reading.tied = tied_places(module, repeated);
        }
        reading
    }

    /// Whether `id` is of a value that changes in forward.
    pub(crate) fn is_running(&self, id: &ParamId) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.contains(id))
    }

    /// Whether some parameter's places do not all belong together.
    pub(crate) fn is_untied(&self) -> bool {
        let mut groups = self.tied.values().flatten();
        groups.any(|&group| group > 0)
    }

    /// Whether the other module is made of the same parameters, by id and order: not where some were added or removed.
    pub(crate) fn has_parts_of(&self, other: &Self) -> bool {
        let ids = other.parts.iter().map(|part| part.id);
        self.flags == other.flags && self.parts.iter().map(|part| part.id).eq(ids)
    }
}

struct Reader<'a> {
    reading: Reading,
    seen: HashSet<ParamId>,
    repeated: HashSet<ParamId>,
    primary: &'a Device,
    /// For each module on the path, whether it is a BatchNorm.
    batch_norm: Vec<bool>,
    /// Some float value takes no gradient: running state does not.
    has_candidates: bool,
}

impl Reader<'_> {
    fn add<const D: usize, K: Autodiff>(
        &mut self,
        id: ParamId,
        kind: Kind,
        tensor: &Tensor<D, K>,
        requires_grad: bool,
    ) {
        if !self.seen.insert(id) {
            self.repeated.insert(id);
        }
        self.reading.traits.misplaced |= tensor.device() != *self.primary;
        self.reading.parts.push(Part {
            id,
            kind,
            dtype: tensor.dtype(),
            shape: tensor.shape(),
            requires_grad,
            context: tensor.gradient_checkpointing_strategy(),
        });
    }
}

impl ModuleVisitor for Reader<'_> {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.batch_norm.push(container_type == "Struct:BatchNorm");
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.batch_norm.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.reading.traits.autodiff |= param.is_autodiff();
        self.has_candidates |= !param.is_require_grad();
        let tensor = param.base();
        self.add(param.id, Kind::Float, &tensor, param.is_require_grad());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.add(param.id, Kind::Int, param, false);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.add(param.id, Kind::Bool, param, false);
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.reading.flags.push(flag.id);
        // Burn's flags switch training behaviour: that of BatchNorm draws nothing, that of all other layers does.
        let batch_norm = self.batch_norm.last().copied().unwrap_or_default();
        self.reading.traits.random |= flag.is_enabled() && !batch_norm;
    }
}
