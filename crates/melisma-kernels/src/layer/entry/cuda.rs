//! Grid and arguments of `entry.cu`.

use super::{Entry, TAPS};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{LayerArgument, STEP};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::transposed;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "entry", text: include_str!("entry.cu"), headers: &[DEVICE, STEP] };

/// Output rows per block.
const OUTPUTS: usize = 256;

/// `Shape` of `entry.cu`.
#[repr(C)]
struct Shape {
    layer: LayerArgument,
    weights_dev: Address,
    x_dev: Address,
    y_dev: Address,
    n_channels: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    /// `[1 + 7, C]`: the bias, then the taps.
    weights: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Entry<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let mut weights = layer.bias.to_vec();
        weights.extend(transposed(layer.weight, TAPS));
        let weights = Upload::new(cuda, budget)?.slice(&weights)?;
        Ok(Self { n_channels: layer.n_channels, weights, function: cuda.function(SOURCE, "entry_f32")? })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let shape = Shape {
            layer,
            weights_dev: address::<f32>(&self.weights)?,
            x_dev: x.address_dev,
            y_dev: y.address_dev,
            n_channels: self.n_channels as u32,
        };
        let launch = Launch::per_row((step.n_latents * timeline.rate).div_ceil(OUTPUTS), step.rows.len());
        // SAFETY: the plan checked views and arena against the step; the weights belong to this layer.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
