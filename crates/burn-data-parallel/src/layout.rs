//! Which parameter lies where in which bucket.

use std::collections::HashMap;

use burn::module::ParamId;
use burn::tensor::{DType, Shape, Tensor, kind::Autodiff};

use crate::reading::{Kind, Part, Reading, in_context};

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
    pub(crate) part: Part,
}

impl Place {
    /// The parameter's part of `flat`.
    pub(crate) fn cut<const D: usize, K: Autodiff>(&self, flat: &Tensor<1, K>) -> Tensor<D, K> {
        let shape: Shape = self.part.shape.clone();
        flat.clone()
            .narrow(0, self.offset, self.elements)
            .reshape(shape)
    }

    /// The parameter's part of `flat`, with the parameter's autodiff setting.
    pub(crate) fn cut_value<const D: usize, K: Autodiff>(
        &self,
        flat: &Tensor<1, K>,
    ) -> Tensor<D, K> {
        in_context(self.cut(flat), self.part.context)
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
    /// The layout of the gradients: of all parameters that take one.
    pub(crate) fn of_gradients(reading: &Reading, bucket_bytes: usize) -> Self {
        let parts = reading.parts.iter().filter(|part| part.requires_grad);
        Self::of(parts, bucket_bytes)
    }

    /// The layout of the values of all parameters. It is empty where a parameter's places do not all belong together: such
    /// modules are rare, so all their values move one by one.
    pub(crate) fn of_values(reading: &Reading, bucket_bytes: usize) -> Self {
        if reading.is_untied() {
            Self::default()
        } else {
            Self::of(reading.parts.iter(), bucket_bytes)
        }
    }

    /// The layout of the running state alone, which is all that a training step changes.
    pub(crate) fn of_buffers(reading: &Reading, bucket_bytes: usize) -> Self {
        let buffer = |part: &&Part| reading.is_running(&part.id);
        if reading.is_untied() {
            Self::default()
        } else {
            Self::of(reading.parts.iter().filter(buffer), bucket_bytes)
        }
    }

    fn of<'a>(parts: impl Iterator<Item = &'a Part>, bucket_bytes: usize) -> Self {
        let mut layout = Self::default();
        for part in parts {
            // Quantized values have scales beside them and cannot lie in a flat buffer; they move alone.
            let quantized = matches!(part.dtype, DType::QFloat(_));
            if !quantized && !layout.places.contains_key(&part.id) {
                layout.add(part, bucket_bytes);
            }
        }
        layout
    }

    fn add(&mut self, part: &Part, bucket_bytes: usize) {
        let open = self.buckets.iter().position(|bucket| {
            bucket.kind == part.kind && bucket.dtype == part.dtype && bucket.bytes < bucket_bytes
        });
        let index = open.unwrap_or_else(|| {
            self.buckets.push(Bucket {
                kind: part.kind,
                dtype: part.dtype,
                bytes: 0,
                members: Vec::new(),
                elements: 0,
            });
            self.buckets.len() - 1
        });
        let elements = part.shape.num_elements();
        let bucket = &mut self.buckets[index];
        self.places.insert(
            part.id,
            Place {
                bucket: index,
                offset: bucket.elements,
                elements,
                part: part.clone(),
            },
        );
        bucket.members.push(part.id);
        bucket.elements += elements;
        bucket.bytes += elements * part.dtype.size();
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::module::Module;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    fn layout(module: &Vec<Linear>, bucket_bytes: usize) -> Layout {
        let device = Device::flex().autodiff();
        Layout::of_values(&Reading::of(module, &device, None), bucket_bytes)
    }

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
                let layout = layout(&module, bucket_bytes);
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
        let few = layout(&layers(4, 64), 8192);
        let many = layout(&layers(64, 16), 8192);
        let bytes = |layout: &Layout| layout.buckets.iter().map(|b| b.bytes).sum::<usize>();
        assert!(bytes(&many).abs_diff(bytes(&few)) < 4096);
        assert!(many.buckets.len() <= bytes(&few).div_ceil(8192));
    }

    #[test]
    fn members_lie_side_by_side() {
        let layout = layout(&layers(5, 8), 1 << 20);
        let mut next = 0;
        for id in &layout.buckets[0].members {
            let place = &layout.places[id];
            assert_eq!(place.offset, next);
            next += place.elements;
        }
    }
}
