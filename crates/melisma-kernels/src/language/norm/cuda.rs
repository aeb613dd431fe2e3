//! Grid and arguments of `norm.cu`.

use super::Norm;
use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const SOURCE: Source = Source { name: "language_norm", text: include_str!("norm.cu"), headers: &[DEVICE] };

#[derive(Debug)]
pub(super) struct Prepared {
    epsilon: f32,
    weight: Tensor,
    function: Function,
}

impl Prepared {
    pub(super) fn new(norm: &Norm<'_>, cuda: &Cuda, budget: &Budget) -> Result<Self> {
        let weight = Upload::new(cuda, budget)?.slice(&norm.floats())?;
        Ok(Self { epsilon: norm.epsilon, weight, function: cuda.function(SOURCE, "norm_f32")? })
    }

    pub(super) fn run(&self, queue: &CudaQueue, x: CudaView<'_, f32>, y: CudaViewMut<'_, f32>) -> Result<()> {
        if x.len == 0 {
            return Ok(());
        }
        let (n_channels, epsilon) = (self.weight.len() as u32, self.epsilon);
        let (x_dev, weight_dev, y_dev) = (x.address_dev, address::<f32>(&self.weight)?, y.address_dev);
        let n_rows = (x.len / self.weight.len()) as u32;
        let launch = Launch { grid: (n_rows.min(65_535), 1, 1), block: (256, 1, 1), shared_bytes: 0 };
        // SAFETY: the plan checked that x and y hold the same whole rows.
        unsafe {
            queue.launch(&self.function, launch, arguments![x_dev, weight_dev, y_dev, n_rows, n_channels, epsilon])
        }
    }
}
