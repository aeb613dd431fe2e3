//! Arguments of `upsample.cu`.

use std::ffi::c_void;

use crate::device::cuda::Cuda;
use crate::layer::cuda::{n_columns, snake_rows};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::product::{CHUNK_K, Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::layer::strided::{OnCuda, Strided};
use crate::queue::{CudaQueue, Upload, arguments};
use crate::{Budget, Result};

const SOURCES: Sources = product_sources!("upsample", "upsample.cu");

#[derive(Debug)]
pub(super) struct Prepared(OnCuda);

impl Prepared {
    pub(super) fn new(layer: &Strided<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Strided { n_in, n_out, stride, weight, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let padded = n_in.next_multiple_of(CHUNK_K);
        let shape = [stride * n_out, 2 * padded];
        let product = Product::new(cuda, &upload, (SOURCES, "upsample", layer.rounding), shape, |m, k| {
            // The first half of K belongs to z[q-1].
            let (input, tap) = if k < padded { (k, 1) } else { (k - padded, 0) };
            let (phase, output) = (m / n_out, m % n_out);
            if input < n_in { weight[((output * stride + phase) * n_in + input) * 2 + tap] } else { 0.0 }
        })?;
        let apply_snake = cuda.function(SOURCES.of(layer.rounding), "upsample_snake")?;
        Ok(Self(OnCuda::new(layer, &upload, (apply_snake, product), &layer.bias.repeat(stride))?))
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let OnCuda { n_in, stride, apply_snake, product, .. } = &self.0;
        let (n_latents, rate) = (pass.step.n_latents, pass.timeline.rate / stride);
        let n_columns = n_columns(pass.step, rate)?;
        let mut shape = self.0.shape(queue, &pass, n_columns, *n_in)?;
        let tile = Tile::of(TILE_COLUMNS + 1, *n_in, n_latents * rate);
        // SAFETY: the plan checked views and arena against the step, the scratch is as large as x, and the weights are
        // this layer's. The product follows on the same stream.
        unsafe {
            queue.launch(apply_snake, snake_rows(*n_in, n_columns), arguments![shape])?;
            product.run(queue, n_columns, tile, (&raw mut shape).cast::<c_void>())
        }
    }
}
