//! Grid and arguments of `head.cu`.

use super::{Head, TAPS};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{LayerArgument, STEP, SnakeArgument, SnakeTable};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::transposed;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "head", text: include_str!("head.cu"), headers: &[DEVICE, STEP] };

/// Outputs per block.
const OUTPUTS: usize = 64;

/// `Shape` of `head.cu`.
#[repr(C)]
struct Shape {
    layer: LayerArgument,
    snake: SnakeArgument,
    taps_dev: Address,
    x_dev: Address,
    y_dev: Address,
    n_channels: u32,
    bias: f32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    snake: SnakeTable,
    /// `[7, C]`
    taps: Tensor,
    bias: f32,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Head<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let n = layer.n_channels;
        let upload = Upload::new(cuda, budget)?;
        Ok(Self {
            n_channels: n,
            snake: SnakeTable::new(&upload, layer.alpha, n)?,
            taps: upload.slice(&transposed(layer.weight, TAPS))?,
            bias: layer.bias,
            function: cuda.function(SOURCE, "head_f32")?,
        })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let shape = Shape {
            layer,
            snake: self.snake.argument()?,
            taps_dev: address::<f32>(&self.taps)?,
            x_dev: x.address_dev,
            y_dev: y.address_dev,
            n_channels: self.n_channels as u32,
            bias: self.bias,
        };
        let launch = Launch::per_row((step.n_latents * timeline.rate).div_ceil(OUTPUTS), step.rows.len());
        // SAFETY: the plan checked views and arena against the step; the weights belong to this layer.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
