//! Arguments of `upsample.cu`.

use std::ffi::c_void;

use super::Upsample;
use crate::device::cuda::{Address, Cuda, Function};
use crate::layer::cuda::{LayerArgument, SnakeArgument, SnakeTable, n_columns, snake_rows};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::product::{CHUNK_K, Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::queue::{CudaQueue, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCES: Sources = product_sources!("upsample", "upsample.cu");

/// `Shape` of `upsample.cu`.
#[repr(C)]
struct Shape {
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
    padded_in: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    n_out: usize,
    stride: usize,
    snake: SnakeTable,
    apply_snake: Function,
    /// Repeated for each phase: `[s, C_out]`.
    bias: Tensor,
    product: Product,
}

impl Prepared {
    pub(super) fn new(layer: &Upsample<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Upsample { n_in, n_out, stride, weight, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let padded_in = n_in.next_multiple_of(CHUNK_K);
        let shape = [stride * n_out, 2 * padded_in];
        let product = Product::new(cuda, &upload, (SOURCES, "upsample", layer.rounding), shape, |m, k| {
            // The first half of K belongs to z[q-1].
            let (input, tap) = if k < padded_in { (k, 1) } else { (k - padded_in, 0) };
            let (phase, output) = (m / n_out, m % n_out);
            if input < n_in { weight[((output * stride + phase) * n_in + input) * 2 + tap] } else { 0.0 }
        })?;
        let snake = SnakeTable::new(&upload, layer.alpha, padded_in)?;
        let apply_snake = cuda.function(SOURCES.of(layer.rounding), "upsample_snake")?;
        Ok(Self { n_in, n_out, stride, snake, apply_snake, bias: upload.slice(&layer.bias.repeat(stride))?, product })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let n_columns = n_columns(step, timeline.rate / self.stride)?;
        let [z_dev] = queue.scratch([x.len * size_of::<f32>()])?;
        let mut shape = Shape {
            layer,
            snake: self.snake.argument()?,
            x_dev: x.address_dev,
            bias_dev: address::<f32>(&self.bias)?,
            z_dev,
            y_dev: y.address_dev,
            n_columns,
            n_in: self.n_in as u32,
            n_out: self.n_out as u32,
            stride: self.stride as u32,
            padded_in: self.n_in.next_multiple_of(CHUNK_K) as u32,
        };
        let tile = Tile::of(TILE_COLUMNS + 1, self.n_in, step.n_latents * timeline.rate / self.stride);
        // SAFETY: the plan checked views and arena against the step, the scratch is as large as x, and the weights are
        // this layer's. The product follows on the same stream.
        unsafe {
            queue.launch(&self.apply_snake, snake_rows(self.n_in, n_columns), arguments![shape])?;
            self.product.run(queue, n_columns, tile, (&raw mut shape).cast::<c_void>())
        }
    }
}
