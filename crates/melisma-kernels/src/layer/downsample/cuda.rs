//! Arguments of `downsample.cu`.

use std::ffi::c_void;

use crate::device::cuda::Cuda;
use crate::layer::cuda::{n_columns, snake_rows};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::product::{CHUNK_K, Form, Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::layer::strided::{OnCuda, Strided};
use crate::queue::{CudaQueue, Upload, arguments};
use crate::{Budget, Result};

const SOURCES: Sources = product_sources!("downsample", "downsample.cu");

#[derive(Debug)]
pub(super) struct Prepared(OnCuda);

impl Prepared {
    pub(super) fn new(layer: &Strided<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Strided { n_in, n_out, stride, weight, rounding, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let half = stride * n_in;
        let padded = half.next_multiple_of(CHUNK_K);
        let shape = [n_out, 2 * padded];
        let product = Product::new(cuda, &upload, (SOURCES, "downsample", rounding), shape, |m, k| {
            let (part, at) = (k / padded, k % padded);
            let (tap, input) = (part * stride + at / n_in, at % n_in);
            if at < half { weight[(m * n_in + input) * 2 * stride + tap] } else { 0.0 }
        })?;
        let apply_snake = cuda.function(SOURCES.of(rounding), "downsample_snake")?;
        Ok(Self(OnCuda::new(layer, &upload, (apply_snake, product), layer.bias)?))
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let OnCuda { n_in, n_out, stride, apply_snake, product, .. } = &self.0;
        let (CudaPass { step, timeline, .. }, half) = (&pass, stride * n_in);
        let n_inputs = n_columns(*step, timeline.rate * stride)?;
        let n_columns = n_columns(*step, timeline.rate)?;
        let mut shape = self.0.shape(queue, &pass, n_columns, half)?;
        let tile = match product.n_outputs_of_a_block() >= *n_out {
            true => Tile::of(TILE_COLUMNS + 1, half, step.n_latents * timeline.rate),
            // Every block of outputs would compute the same operands again.
            false => Tile::None,
        };
        // SAFETY: the plan checked views and arena against the step, the scratch is as large as x, and the weights are
        // this layer's. The product follows on the same stream.
        unsafe {
            if product.form(queue, n_columns, tile) != Form::Short {
                queue.launch(apply_snake, snake_rows(*n_in, n_inputs), arguments![shape])?;
            }
            product.run(queue, n_columns, tile, (&raw mut shape).cast::<c_void>())
        }
    }
}
