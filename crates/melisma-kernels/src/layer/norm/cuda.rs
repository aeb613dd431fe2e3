//! Grid and arguments of `norm.cu`.

use super::Norm;
use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "norm", text: include_str!("norm.cu"), headers: &[DEVICE] };

#[derive(Debug)]
pub(super) struct Prepared {
    n_channels: usize,
    weight: Tensor,
    bias: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(layer: &Norm<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let upload = Upload::new(cuda, budget)?;
        let (weight, bias) = (upload.slice(layer.weight)?, upload.slice(layer.bias)?);
        Ok(Self { n_channels: layer.n_channels, weight, bias, function: cuda.function(SOURCE, "norm_f32")? })
    }

    pub(super) fn run(&self, queue: &CudaQueue, x: CudaView<'_, f32>, y: CudaViewMut<'_, f32>) -> Result<()> {
        if x.len == 0 {
            return Ok(());
        }
        let (n_rows, n_channels) = ((x.len / self.n_channels) as u32, self.n_channels as u32);
        let (x_dev, y_dev) = (x.address_dev, y.address_dev);
        let (weight_dev, bias_dev) = (address::<f32>(&self.weight)?, address::<f32>(&self.bias)?);
        let launch = Launch::shared(queue, 32 * n_rows as usize);
        // SAFETY: the plan checked that x and y hold the same whole rows.
        unsafe {
            queue.launch(&self.function, launch, arguments![x_dev, weight_dev, bias_dev, y_dev, n_rows, n_channels])
        }
    }
}
