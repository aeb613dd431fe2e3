//! Grid and arguments of `convert.cu`.

use crate::device::cuda::{DEVICE, Function, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, arguments};
use crate::{Element, Result};

pub(crate) const SOURCE: Source = Source { name: "convert", text: include_str!("convert.cu"), headers: &[DEVICE] };

const BLOCK: u32 = 256;
/// Elements that one thread converts: four groups of four.
const PER_THREAD: usize = 16;

pub(super) fn run<S: Element, D: Element>(
    queue: &CudaQueue,
    function: &Function,
    src: CudaView<'_, S>,
    dst: CudaViewMut<'_, D>,
) -> Result<()> {
    if src.len == 0 {
        return Ok(());
    }
    let (src_dev, dst_dev, len) = (src.address_dev, dst.address_dev, src.len as u64);
    let blocks = src.len.div_ceil(BLOCK as usize * PER_THREAD);
    // A grid-stride loop covers elements beyond the largest grid.
    let grid = (u32::try_from(blocks).unwrap_or(u32::MAX).min(1 << 20), 1, 1);
    let launch = Launch { grid, block: (BLOCK, 1, 1), shared_bytes: 0 };
    // SAFETY: the plan checked that both views hold `len` elements; the kernel's parameters are (src, dst, len).
    unsafe { queue.launch(function, launch, arguments![src_dev, dst_dev, len]) }
}
