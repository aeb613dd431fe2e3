//! Grid and arguments of `gated.cu`.

use crate::Result;
use crate::device::cuda::{Cuda, DEVICE, Function, Source};
use crate::language::cuda::CURVE;
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};

const SOURCE: Source = Source { name: "gated", text: include_str!("gated.cu"), headers: &[DEVICE, CURVE] };

const BLOCK: u32 = 256;

pub(super) fn prepare(cuda: &Cuda) -> Result<Function> {
    cuda.function(SOURCE, "gated_f32")
}

pub(super) fn run(
    queue: &CudaQueue,
    (function, n_inner): (&Function, usize),
    x: CudaView<'_, f32>,
    y: CudaViewMut<'_, f32>,
) -> Result<()> {
    if y.len == 0 {
        return Ok(());
    }
    let (x_dev, y_dev, n_rows, n_inner) = (x.address_dev, y.address_dev, (y.len / n_inner) as u32, n_inner as u32);
    let grid = (n_inner.div_ceil(BLOCK), n_rows.min(65_535), 1);
    let launch = Launch { grid, block: (BLOCK, 1, 1), shared_bytes: 0 };
    // SAFETY: the plan checked that x has two halves for each row of y.
    unsafe { queue.launch(function, launch, arguments![x_dev, y_dev, n_rows, n_inner]) }
}
