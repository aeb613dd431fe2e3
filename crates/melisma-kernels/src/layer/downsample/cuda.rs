//! Arguments of `downsample.cu`.

use std::ffi::c_void;

use super::Downsample;
use crate::device::cuda::{Address, Cuda, Function};
use crate::layer::cuda::{LayerArgument, SnakeArgument, SnakeTable, n_columns, snake_rows};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::product::{CHUNK_K, Form, Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::queue::{CudaQueue, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCES: Sources = product_sources!("downsample", "downsample.cu");

/// `Shape` of `downsample.cu`.
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
    padded_half: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_in: usize,
    n_out: usize,
    stride: usize,
    snake: SnakeTable,
    apply_snake: Function,
    bias: Tensor,
    product: Product,
}

impl Prepared {
    pub(super) fn new(layer: &Downsample<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let Downsample { n_in, n_out, stride, weight, rounding, .. } = *layer;
        let upload = Upload::new(cuda, budget)?;
        let half = stride * n_in;
        let padded_half = half.next_multiple_of(CHUNK_K);
        let shape = [n_out, 2 * padded_half];
        let product = Product::new(cuda, &upload, (SOURCES, "downsample", rounding), shape, |m, k| {
            let (part, at) = (k / padded_half, k % padded_half);
            let (tap, input) = (part * stride + at / n_in, at % n_in);
            if at < half { weight[(m * n_in + input) * 2 * stride + tap] } else { 0.0 }
        })?;
        let snake = SnakeTable::new(&upload, layer.alpha, n_in.next_multiple_of(CHUNK_K))?;
        let apply_snake = cuda.function(SOURCES.of(rounding), "downsample_snake")?;
        Ok(Self { n_in, n_out, stride, snake, apply_snake, bias: upload.slice(layer.bias)?, product })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let n_inputs = n_columns(step, timeline.rate * self.stride)?;
        let n_columns = n_columns(step, timeline.rate)?;
        let [z_dev] = queue.scratch([x.len * size_of::<f32>()])?;
        let half = self.stride * self.n_in;
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
            padded_half: half.next_multiple_of(CHUNK_K) as u32,
        };
        let tile = match self.product.n_outputs_of_a_block() >= self.n_out {
            true => Tile::of(TILE_COLUMNS + 1, half, step.n_latents * timeline.rate),
            // Every block of outputs would compute the same operands again.
            false => Tile::None,
        };
        // SAFETY: the plan checked views and arena against the step, the scratch is as large as x, and the weights are
        // this layer's. The product follows on the same stream.
        unsafe {
            if self.product.form(queue, n_columns, tile) != Form::Short {
                queue.launch(&self.apply_snake, snake_rows(self.n_in, n_inputs), arguments![shape])?;
            }
            self.product.run(queue, n_columns, tile, (&raw mut shape).cast::<c_void>())
        }
    }
}
