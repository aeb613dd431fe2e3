//! The head of `upsample` and `downsample`: Snake, then a convolution with a stride s and 2s taps as one product.

use crate::device::cuda::{Address, Function};
use crate::layer::cuda::{LayerArgument, SnakeArgument, SnakeTable};
use crate::layer::plan::CudaPass;
use crate::layer::product::{CHUNK_K, Product};
use crate::layer::step::{Rounding, Timeline};
use crate::memory::view::check_len;
use crate::queue::{CudaQueue, Upload, address};
use crate::{Error, Result, Tensor};

/// A layer with its weights.
#[derive(Debug, Clone, Copy)]
pub struct Strided<'a> {
    /// C_in.
    pub n_in: usize,
    /// C_out.
    pub n_out: usize,
    /// s.
    pub stride: usize,
    /// `[C_in]`
    pub alpha: &'a [f32],
    /// `[C_out, s, C_in, 2]` for `upsample`, `[C_out, C_in, 2s]` for `downsample`.
    pub weight: &'a [f32],
    /// `[C_out]`
    pub bias: &'a [f32],
    /// Timeline of the output.
    pub timeline: Timeline,
    /// The rounding allowed on a GPU.
    pub rounding: Rounding,
}

impl Strided<'_> {
    /// Checks the lengths, and that the stride divides `rate`, the higher one.
    pub(crate) fn check(&self, name: &str, rate: usize) -> Result<()> {
        let Strided { n_in, n_out, stride, .. } = *self;
        check_len(&format_args!("{name}: alpha"), self.alpha.len(), n_in)?;
        check_len(&format_args!("{name}: weight"), self.weight.len(), n_out * stride * n_in * 2)?;
        check_len(&format_args!("{name}: bias"), self.bias.len(), n_out)?;
        if stride == 0 || !rate.is_multiple_of(stride) {
            return Err(Error::invalid(format!("{name}: the rate {rate} is not a multiple of {stride}")));
        }
        Ok(())
    }
}

/// `Strided` of `step.cuh`.
#[repr(C)]
pub(crate) struct Shape {
    layer: LayerArgument,
    snake: SnakeArgument,
    x_dev: Address,
    bias_dev: Address,
    z_dev: Address,
    y_dev: Address,
    n_columns: u32,
    n_in: u32,
    n_out: u32,
    stride: u32,
    padded: u32,
}

/// The layer on a GPU.
#[derive(Debug)]
pub(crate) struct OnCuda {
    pub(crate) n_in: usize,
    pub(crate) n_out: usize,
    pub(crate) stride: usize,
    snake: SnakeTable,
    /// Writes Snake of all inputs.
    pub(crate) apply_snake: Function,
    bias: Tensor,
    pub(crate) product: Product,
}

impl OnCuda {
    /// Creates it; `bias` has a value for each output of a column.
    pub(crate) fn new(
        layer: &Strided<'_>,
        upload: &Upload<'_>,
        (apply_snake, product): (Function, Product),
        bias: &[f32],
    ) -> Result<Self> {
        let Strided { n_in, n_out, stride, alpha, .. } = *layer;
        let snake = SnakeTable::new(upload, alpha, n_in.next_multiple_of(CHUNK_K))?;
        Ok(Self { n_in, n_out, stride, snake, apply_snake, bias: upload.slice(bias)?, product })
    }

    /// Returns the argument of all kernels; a column has two times `half` inputs.
    pub(crate) fn shape(&self, queue: &CudaQueue, pass: &CudaPass<'_>, n_columns: u32, half: usize) -> Result<Shape> {
        let [z_dev] = queue.scratch([pass.x.len * size_of::<f32>()])?;
        Ok(Shape {
            layer: pass.layer,
            snake: self.snake.argument()?,
            x_dev: pass.x.address_dev,
            bias_dev: address::<f32>(&self.bias)?,
            z_dev,
            y_dev: pass.y.address_dev,
            n_columns,
            n_in: self.n_in as u32,
            n_out: self.n_out as u32,
            stride: self.stride as u32,
            padded: half.next_multiple_of(CHUNK_K) as u32,
        })
    }
}

/// Layers and cases for the tests of `upsample` and `downsample`.
#[cfg(test)]
pub(crate) mod case {
    use super::Strided;
    use crate::layer::step::{Rounding, Timeline};
    use crate::random::SplitMix64;

    /// C_in, C_out and s of a layer, and the latents of its streams.
    pub(crate) type Case = ([usize; 3], &'static [usize]);

    pub(crate) const PLAIN: [Case; 2] = [([16, 8, 8], &[5, 2]), ([33, 17, 2], &[7])];
    pub(crate) const ODD_STRIDES: [Case; 3] = [([8, 4, 3], &[4, 1, 6]), ([6, 3, 5], &[4]), ([4, 2, 1], &[9])];
    pub(crate) const ONE_ELEMENT: [Case; 2] = [([1, 1, 1], &[1, 0]), ([1, 1, 4], &[1])];

    /// A layer that lacks nothing but a rate that its stride divides.
    pub(crate) const UNEVEN: Strided<'_> = Strided {
        n_in: 1,
        n_out: 1,
        stride: 2,
        alpha: &[1.0],
        weight: &[0.0; 4],
        bias: &[0.0],
        timeline: Timeline { rate: 3, lag: 1 },
        rounding: Rounding::Off,
    };

    /// Layers that are refused, each with a part of the reason.
    pub(crate) const WRONG: [(Strided<'_>, &str); 5] = [
        (UNEVEN, "not a multiple of 2"),
        (Strided { stride: 0, weight: &[], ..UNEVEN }, "not a multiple of 0"),
        (Strided { weight: &[0.0; 3], ..UNEVEN }, "weight"),
        (Strided { alpha: &[], ..UNEVEN }, "alpha"),
        (Strided { bias: &[], ..UNEVEN }, "bias"),
    ];

    /// Random weights for sums of `n_terms`.
    pub(crate) struct Weights {
        shape: [usize; 3],
        alpha: Vec<f32>,
        weight: Vec<f32>,
        bias: Vec<f32>,
    }

    impl Weights {
        pub(crate) fn new(shape @ [n_in, n_out, stride]: [usize; 3], n_terms: usize) -> Self {
            let mut random = SplitMix64::new((n_in * stride) as u64);
            let alpha = random.floats(n_in).iter().map(|x| 1.5 + x).collect();
            let scale = 1.0 / (n_terms as f32).sqrt();
            let weight = random.floats(n_in * n_out * stride * 2).iter().map(|x| x * scale).collect();
            Self { shape, alpha, weight, bias: random.floats(n_out) }
        }

        pub(crate) fn layer(&self, timeline: Timeline) -> Strided<'_> {
            let Self { shape: [n_in, n_out, stride], alpha, weight, bias } = self;
            let [n_in, n_out, stride] = [*n_in, *n_out, *stride];
            Strided { n_in, n_out, stride, alpha, weight, bias, timeline, rounding: Rounding::Off }
        }
    }
}
