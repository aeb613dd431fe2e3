//! Grid and arguments of `populate.cu`.

use super::{FRAME_CODES, Output};
use crate::Result;
use crate::device::cuda::{Address, DEVICE, Function, Source};
use crate::memory::view::CudaView;
use crate::queue::{CudaQueue, Launch, arguments};

pub(super) const SOURCE: Source = Source { name: "populate", text: include_str!("populate.cu"), headers: &[DEVICE] };
pub(super) const SYMBOL: &str = "populate_i32";

/// `Levels` of `populate.cu`.
#[repr(C)]
struct Levels {
    levels_dev: [Address; 3],
    valid_dev: Address,
}

pub(super) fn run(
    queue: &CudaQueue,
    function: &Function,
    codebook_size: i32,
    frames: CudaView<'_, i32>,
    output: Output<'_>,
) -> Result<()> {
    let [coarse, middle, fine] = output.levels;
    let levels_dev = [coarse.cuda()?.address_dev, middle.cuda()?.address_dev, fine.cuda()?.address_dev];
    let levels = Levels { levels_dev, valid_dev: output.valid.cuda()?.address_dev };
    let (frames_dev, n_frames) = (frames.address_dev, (frames.len / FRAME_CODES) as u64);
    let threads = n_frames.next_multiple_of(32).clamp(32, 1024) as u32;
    let launch = Launch { grid: (1, 1, 1), block: (threads, 1, 1), shared_bytes: 0 };
    // SAFETY: the plan checked that levels and flags have room for all frames.
    unsafe { queue.launch(function, launch, arguments![frames_dev, levels, n_frames, codebook_size]) }
}
