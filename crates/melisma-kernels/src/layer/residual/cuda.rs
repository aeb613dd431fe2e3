//! Grids and arguments of `residual.cu`.

use std::ffi::c_void;

use super::{Residual, TAPS};
use crate::device::cuda::{Address, Cuda, Function};
use crate::layer::cuda::{LayerArgument, SnakeArgument, SnakeTable, n_columns};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::product::{CHUNK_K, Form, Product, Sources, TILE_COLUMNS, Tile, product_sources};
use crate::layer::transposed;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCES: Sources = product_sources!("residual", "residual.cu");

/// Outputs per thread in `residual_hidden`.
const RUN: usize = 12;

/// `Shape` of `residual.cu`.
#[repr(C)]
struct Shape {
    layer: LayerArgument,
    entry: SnakeArgument,
    middle: SnakeArgument,
    taps_dev: Address,
    wide_bias_dev: Address,
    mix_bias_dev: Address,
    x_dev: Address,
    hidden_dev: Address,
    y_dev: Address,
    n_columns: u32,
    n_channels: u32,
    dilation: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    dilation: usize,
    entry: SnakeTable,
    /// `[7, C]`
    taps: Tensor,
    wide_bias: Tensor,
    middle: SnakeTable,
    mix_bias: Tensor,
    hidden: Function,
    product: Product,
}

impl Prepared {
    pub(super) fn new(layer: &Residual<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let n = layer.n_channels;
        let upload = Upload::new(cuda, budget)?;
        let padded = n.next_multiple_of(CHUNK_K);
        Ok(Self {
            n_channels: n,
            dilation: layer.dilation,
            entry: SnakeTable::new(&upload, layer.alpha, padded)?,
            taps: upload.slice(&transposed(layer.wide, TAPS))?,
            wide_bias: upload.slice(layer.wide_bias)?,
            middle: SnakeTable::new(&upload, layer.mix_alpha, padded)?,
            mix_bias: upload.slice(layer.mix_bias)?,
            hidden: cuda.function(SOURCES.of(layer.rounding), "residual_hidden")?,
            product: Product::new(cuda, &upload, (SOURCES, "residual", layer.rounding), [n, n], |m, k| {
                layer.mix[m * n + k]
            })?,
        })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let n_columns = n_columns(step, timeline.rate)?;
        let [hidden_dev] = queue.scratch([x.len * size_of::<f32>()])?;
        let mut shape = Shape {
            layer,
            entry: self.entry.argument()?,
            middle: self.middle.argument()?,
            taps_dev: address::<f32>(&self.taps)?,
            wide_bias_dev: address::<f32>(&self.wide_bias)?,
            mix_bias_dev: address::<f32>(&self.mix_bias)?,
            x_dev: x.address_dev,
            hidden_dev,
            y_dev: y.address_dev,
            n_columns,
            n_channels: self.n_channels as u32,
            dilation: self.dilation as u32,
        };
        let len = step.n_latents * timeline.rate;
        let tile = match self.product.n_outputs_of_a_block() >= self.n_channels {
            true => Tile::of(TILE_COLUMNS, self.n_channels, len),
            // Every block of outputs would compute the same operands again.
            false => Tile::None,
        };
        let n_runs = len.div_ceil(self.dilation * RUN) * self.dilation;
        let launch = Launch::per_row((n_runs * self.n_channels).div_ceil(256), step.rows.len());
        // SAFETY: the plan checked views and arena against the step, the scratch is as large as x, and the weights are
        // this layer's. The product follows on the same stream.
        unsafe {
            if self.product.form(queue, n_columns, tile) != Form::Short {
                queue.launch(&self.hidden, launch, arguments![shape])?;
            }
            if n_columns == 0 {
                return Ok(());
            }
            self.product.run(queue, n_columns, tile, (&raw mut shape).cast::<c_void>())
        }
    }
}
