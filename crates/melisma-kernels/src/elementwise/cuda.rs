//! Grid and arguments of `elementwise.cu`.

use super::Operation;
use crate::Result;
use crate::device::cuda::{DEVICE, Function, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};

pub(crate) const SOURCE: Source =
    Source { name: "elementwise", text: include_str!("elementwise.cu"), headers: &[DEVICE] };

const BLOCK: u32 = 256;

fn launch(len: usize) -> Launch {
    // A grid-stride loop covers elements beyond the largest grid.
    let blocks = u32::try_from(len.div_ceil(BLOCK as usize)).unwrap_or(u32::MAX).min(1 << 16);
    Launch { grid: (blocks, 1, 1), block: (BLOCK, 1, 1), shared_bytes: 0 }
}

pub(super) fn each(
    queue: &CudaQueue,
    (function, operation): (&Function, Operation),
    y: CudaViewMut<'_, f32>,
    x: CudaView<'_, f32>,
) -> Result<()> {
    if y.len == 0 {
        return Ok(());
    }
    let (y_dev, x_dev, len, operation) = (y.address_dev, x.address_dev, y.len as u64, operation as u32);
    // SAFETY: `run` checked that both views hold `len` elements; the kernel's parameters are (y, x, len, operation).
    unsafe { queue.launch(function, launch(y.len), arguments![y_dev, x_dev, len, operation]) }
}

pub(super) fn all(
    queue: &CudaQueue,
    (function, operation): (&Function, Operation),
    y: CudaViewMut<'_, f32>,
    x: f32,
) -> Result<()> {
    if y.len == 0 {
        return Ok(());
    }
    let (y_dev, len, operation) = (y.address_dev, y.len as u64, operation as u32);
    // SAFETY: the view holds `len` elements; the kernel's parameters are (y, x, len, operation).
    unsafe { queue.launch(function, launch(y.len), arguments![y_dev, x, len, operation]) }
}
