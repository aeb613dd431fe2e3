//! Jobs in device memory, and the grid of `rans.cu`: a block for each tile, a warp for each of its slices.

use super::batch::{DeviceJob, Job};
use super::record::Mode;
use crate::cuda::{Cuda, CudaQueue, Function, Launch, Source, arguments};
use crate::view::{CudaView, CudaViewMut};
use crate::{Budget, Buffer, Queue, Result};

pub(crate) const SOURCE: Source = Source { name: "rans", text: include_str!("rans.cu") };

const BLOCK: u32 = 128;

/// A batch's jobs on the device.
#[derive(Debug)]
pub(super) struct OnCuda {
    function: Function,
    jobs: Buffer,
    n_jobs: u32,
    scratch_len: usize,
}

impl OnCuda {
    pub(super) fn new(device: &Cuda, jobs: &[Job]) -> Result<Self> {
        let function = device.function(SOURCE, "rans_decode")?;
        let mut scratch_len = 0;
        let stored: Vec<DeviceJob> = jobs
            .iter()
            .map(|job| {
                let len = u64::from(job.row_len) * u64::from(job.rows);
                let scratch = scratch_len as u64;
                if needs_scratch(job) {
                    scratch_len += (len as usize).next_multiple_of(16);
                }
                DeviceJob {
                    record: job.record,
                    out: job.out,
                    scratch,
                    number: job.number,
                    hash: job.tile.hash,
                    row_step: if job.rows > 1 { job.row_step } else { len },
                    record_len: job.tile.len,
                    n: (len / job.split.width() as u64) as u32,
                    modes: job.tile.modes,
                    split: job.split.number().into(),
                    row_len: job.row_len,
                    unused: 0,
                }
            })
            .collect();
        let bytes: &[u8] = bytemuck::cast_slice(&stored);
        let budget = Budget::unlimited();
        let queue = Queue::Cuda(CudaQueue::new(device, &budget)?);
        let mut on_device = Buffer::device(device, &budget, bytes.len().max(1))?;
        queue.copy(bytes.into(), on_device.view_mut::<u8>()?.first(bytes.len())?)?;
        Ok(Self { function, jobs: on_device, n_jobs: jobs.len() as u32, scratch_len })
    }
}

/// Elements of 16 bits with one coded plane are joined while they are decoded.
fn needs_scratch(job: &Job) -> bool {
    let is_coded = |plane| matches!(job.tile.mode(plane), Ok(Mode::Bytes | Mode::Pairs));
    let n_coded = (0..job.split.width()).filter(|&plane| is_coded(plane)).count();
    n_coded > 0 && !(job.split.width() == 2 && n_coded == 1 && is_coded(0))
}

pub(super) fn run(
    queue: &CudaQueue,
    on: &OnCuda,
    packed: CudaView<'_, u8>,
    out: CudaViewMut<'_, u8>,
    status: CudaViewMut<'_, i32>,
) -> Result<()> {
    if on.n_jobs == 0 {
        return Ok(());
    }
    let [scratch_dev] = queue.scratch([on.scratch_len])?;
    let (jobs_dev, packed_dev) = (on.jobs.address(), packed.address_dev);
    let (out_dev, status_dev) = (out.address_dev, status.address_dev);
    let launch = Launch { grid: (on.n_jobs, 1, 1), block: (BLOCK, 1, 1), shared_bytes: 0 };
    // SAFETY: `Batch::plan` checked that records and outputs are within the views, `OnCuda::new` made the scratch large
    // enough; the kernel's parameters are (jobs, packed, out, scratch, status).
    unsafe { queue.launch(&on.function, launch, arguments![jobs_dev, packed_dev, out_dev, scratch_dev, status_dev]) }
}
