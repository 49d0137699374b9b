//! Which parameter lies where in which bucket.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{
    Bool, DType, GradientCheckpointingStrategy, Int, Shape, Tensor, kind::Autodiff,
};

use crate::inspect::untied;

/// The kind of a bucket's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Float,
    Int,
    Bool,
}

/// One flat buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    pub(crate) bytes: usize,
    pub(crate) members: Vec<ParamId>,
    elements: usize,
}

/// Where one parameter lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bucket: usize,
    pub(crate) offset: usize,
    pub(crate) elements: usize,
    pub(crate) shape: Shape,
    pub(crate) requires_grad: bool,
    /// The autodiff setting of the parameter's tensor; none where it has no autodiff.
    context: Option<GradientCheckpointingStrategy>,
}

impl Place {
    /// `tensor` with the parameter's autodiff setting.
    pub(crate) fn in_context<const D: usize, K: Autodiff>(
        &self,
        tensor: Tensor<D, K>,
    ) -> Tensor<D, K> {
        match self.context {
            Some(strategy) => tensor
                .autodiff()
                .with_gradient_checkpointing_strategy(strategy),
            None => tensor,
        }
    }
}

/// The buckets of a module: parameters in order of visit, one dtype a bucket.
///
/// A bucket is closed once it holds `bucket_bytes` or more, so there are at most `ceil(bytes / bucket_bytes)` of one dtype.
/// 25 MiB is PyTorch's default too
/// ([`DistributedDataParallel(bucket_cap_mb=25)`](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) places: HashMap<ParamId, Place>,
}

impl Layout {
    /// The layout of all parameters of `module`, or of those alone that take gradients.
    pub(crate) fn of<M: Module>(module: &M, bucket_bytes: usize, trainable_only: bool) -> Self {
        let mut builder = Builder {
            layout: Layout::default(),
            bucket_bytes,
            trainable_only,
        };
        module.visit(&mut builder);
        builder.layout
    }

    /// The layout of the values of all parameters but those whose places differ, which move one by one.
    pub(crate) fn of_values<M: Module>(module: &M, bucket_bytes: usize) -> Self {
        let mut layout = Self::of(module, bucket_bytes, false);
        let untied = untied(module);
        if !untied.is_empty() {
            // Offsets would have holes; such modules are rare, so all their values move one by one.
            layout = Self::default();
        }
        layout
    }
}

struct Builder {
    layout: Layout,
    bucket_bytes: usize,
    trainable_only: bool,
}

impl Builder {
    fn add<const D: usize, K: Autodiff>(
        &mut self,
        id: ParamId,
        kind: Kind,
        tensor: &Tensor<D, K>,
        requires_grad: bool,
    ) {
        let dtype = tensor.dtype();
        // Quantized values have scales beside them and cannot lie in a flat buffer; they move alone.
        let quantized = matches!(dtype, DType::QFloat(_));
        let known = self.layout.places.contains_key(&id);
        if known || quantized || (self.trainable_only && !requires_grad) {
            return;
        }
        let shape = tensor.shape();
        let elements = shape.num_elements();
        let buckets = &mut self.layout.buckets;
        let open = buckets.iter().position(|bucket| {
            bucket.kind == kind && bucket.dtype == dtype && bucket.bytes < self.bucket_bytes
        });
        let index = open.unwrap_or_else(|| {
            buckets.push(Bucket {
                kind,
                dtype,
                bytes: 0,
                members: Vec::new(),
                elements: 0,
            });
            buckets.len() - 1
        });
        let bucket = &mut buckets[index];
        self.layout.places.insert(
            id,
            Place {
                bucket: index,
                offset: bucket.elements,
                elements,
                shape,
                requires_grad,
                context: tensor.gradient_checkpointing_strategy(),
            },
        );
        bucket.members.push(id);
        bucket.elements += elements;
        bucket.bytes += elements * dtype.size();
    }
}

impl ModuleVisitor for Builder {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.add(param.id, Kind::Float, param, param.is_require_grad());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.add(param.id, Kind::Int, param, false);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.add(param.id, Kind::Bool, param, false);
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    fn layers(count: usize, width: usize) -> Vec<Linear> {
        let device = Device::flex().autodiff();
        (0..count)
            .map(|_| LinearConfig::new(width, width).init(&device))
            .collect()
    }

    #[test]
    fn buckets_are_at_most_bytes_over_bucket_size_rounded_up() {
        for (count, width) in [(1, 8), (100, 4), (37, 16), (3, 64)] {
            let module = layers(count, width);
            let bytes = module.num_params() * 4;
            for bucket_bytes in [1, 64, 1000, 4096, 25 << 20] {
                let layout = Layout::of(&module, bucket_bytes, false);
                let most = bytes.div_ceil(bucket_bytes).min(2 * count);
                assert!(
                    (1..=most).contains(&layout.buckets.len()),
                    "{count} {width} {bucket_bytes}"
                );
                assert_eq!(layout.buckets.iter().map(|b| b.bytes).sum::<usize>(), bytes);
            }
        }
    }

    #[test]
    fn more_parameters_of_the_same_bytes_need_no_more_buckets() {
        let few = Layout::of(&layers(4, 64), 8192, false);
        let many = Layout::of(&layers(64, 16), 8192, false);
        let bytes = |layout: &Layout| layout.buckets.iter().map(|b| b.bytes).sum::<usize>();
        assert!(bytes(&many).abs_diff(bytes(&few)) < 4096);
        assert!(many.buckets.len() <= bytes(&few).div_ceil(8192));
    }

    #[test]
    fn members_lie_side_by_side() {
        let layout = Layout::of(&layers(5, 8), 1 << 20, false);
        let mut next = 0;
        for id in &layout.buckets[0].members {
            let place = &layout.places[id];
            assert_eq!(place.offset, next);
            next += place.elements;
        }
    }
}
