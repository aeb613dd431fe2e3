//! Grid and arguments of `entry.cu`.

use super::{Entry, TAPS};
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{LayerArgument, STEP};
use crate::layer::plan::{CudaLayer, CudaPass};
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
        let n = layer.n_channels;
        let mut weights = layer.bias.to_vec();
        weights.extend((0..TAPS).flat_map(|k| (0..n).map(move |c| layer.weight[c * TAPS + k])));
        let weights = Upload::new(cuda, budget)?.slice(&weights)?;
        Ok(Self { n_channels: n, weights, function: cuda.function(SOURCE, "entry_f32")? })
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
        let tiles = (step.n_latents * timeline.rate).div_ceil(OUTPUTS).max(1);
        let grid = (tiles as u32, step.rows.len().min(65_535) as u32, 1);
        let launch = Launch { grid, block: (256, 1, 1), shared_bytes: 0 };
        // SAFETY: the plan checked views and arena against the step; the weights belong to this layer.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
