//! Grid and arguments of `depthwise.cu`.

use super::Depthwise;
use crate::device::cuda::{Address, Cuda, DEVICE, Function, Source};
use crate::layer::cuda::{LayerArgument, STEP, n_columns};
use crate::layer::plan::{CudaLayer, CudaPass};
use crate::layer::transposed;
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "depthwise", text: include_str!("depthwise.cu"), headers: &[DEVICE, STEP] };

/// `Shape` of `depthwise.cu`.
#[repr(C)]
struct Shape {
    layer: LayerArgument,
    taps_dev: Address,
    bias_dev: Address,
    x_dev: Address,
    y_dev: Address,
    n_columns: u32,
    n_channels: u32,
    n_taps: u32,
}

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    n_taps: usize,
    /// `[K, C]`
    taps: Tensor,
    bias: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Depthwise<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let (n_channels, n_taps) = (layer.n_channels, layer.n_taps);
        let upload = Upload::new(cuda, budget)?;
        let (taps, bias) = (upload.slice(&transposed(layer.weight, n_taps))?, upload.slice(layer.bias)?);
        Ok(Self { n_channels, n_taps, taps, bias, function: cuda.function(SOURCE, "depthwise_f32")? })
    }
}

impl CudaLayer for Prepared {
    fn run(&self, queue: &CudaQueue, pass: CudaPass<'_>) -> Result<()> {
        let CudaPass { step, timeline, layer, x, y } = pass;
        let shape = Shape {
            layer,
            taps_dev: address::<f32>(&self.taps)?,
            bias_dev: address::<f32>(&self.bias)?,
            x_dev: x.address_dev,
            y_dev: y.address_dev,
            n_columns: n_columns(step, timeline.rate)?,
            n_channels: self.n_channels as u32,
            n_taps: self.n_taps as u32,
        };
        let launch = Launch::shared(queue, y.len);
        // SAFETY: the plan checked views and arena against the step; the weights belong to this layer.
        unsafe { queue.launch(&self.function, launch, arguments![shape]) }
    }
}
