//! Jobs in device memory, and the grid of `rans.cu`: one block per four segments of a tile, one
//! warp per segment.

use std::ops::Range;

use super::Slices;
use super::index;
use super::job::{DeviceJob, DevicePart, Job};
use super::record::Mode;
use crate::device::cuda::{Cuda, DEVICE, Function, Header, Source};
use crate::memory::view::{CudaView, CudaViewMut};
use crate::queue::{CudaQueue, Launch, Upload, address, arguments};
use crate::{Budget, Result, Tensor};

const RECORD: Header = Header { name: "record.cuh", text: include_str!("record.cuh") };
const STREAM: Header = Header { name: "stream.cuh", text: include_str!("stream.cuh") };
const JOINED: Header = Header { name: "joined.cuh", text: include_str!("joined.cuh") };
pub(crate) const SOURCE: Source =
    Source { name: "rans", text: include_str!("rans.cu"), headers: &[DEVICE, RECORD, STREAM, JOINED] };

const WARPS: u32 = 4;
/// Matches the kernel's launch bounds.
const BLOCKS_PER_PROCESSOR: usize = 8;
/// The row length of a tile in one row: a multiple of 128 above every tile's length.
const ENDLESS: u32 = 1 << 31;

/// A batch's jobs on the device.
#[derive(Debug)]
pub(super) struct OnCuda {
    function: Function,
    jobs: Tensor,
    parts: Tensor,
    /// For each job, and at the end, the number of parts and of scratch bytes before it.
    before: Vec<(u32, u64)>,
}

/// A range of a batch's jobs.
pub(super) struct JobRange<'a> {
    on: &'a OnCuda,
    jobs: Range<usize>,
}

impl OnCuda {
    pub(super) fn new(device: &Cuda, budget: &Budget, jobs: &[Job]) -> Result<Self> {
        let function = device.function(SOURCE, "rans_decode")?;
        let (mut parts, mut stored, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut scratch = 0;
        let group = group(device, jobs);
        for (index, job) in jobs.iter().enumerate() {
            before.push((parts.len() as u32, scratch));
            let len = u64::from(job.row_len) * u64::from(job.rows);
            let n = len as usize / job.split.width();
            let segments = job.segments.filter(|segments| Slices::of(n).len > segments.len as usize);
            let segment = segments.map_or(0, |segments| segments.len);
            let stride = segment.saturating_mul(group);
            let n_segments = index::n_segments(n, stride as usize) as u32;
            // With an index, one more part computes the hash of the whole tile.
            let n_parts = n_segments.div_ceil(WARPS) + u32::from(segments.is_some());
            parts.extend((0..n_parts).map(|part| DevicePart { job: index as u32, first: part * WARPS }));
            let is_contiguous = job.rows <= 1 || job.row_step == u64::from(job.row_len);
            stored.push(DeviceJob {
                record: job.record,
                out: job.out,
                scratch,
                number: job.number,
                hash: job.tile.hash,
                row_step: if is_contiguous { 0 } else { job.row_step },
                index: segments.map_or(0, |segments| segments.at),
                record_len: job.tile.len,
                n: n as u32,
                modes: job.tile.modes,
                split: job.split.number().into(),
                row_len: if is_contiguous { ENDLESS } else { job.row_len },
                segment,
                stride,
                unused: 0,
            });
            if needs_scratch(job) {
                scratch += len.next_multiple_of(16);
            }
        }
        before.push((parts.len() as u32, scratch));
        let upload = Upload::new(device, budget)?;
        let jobs = upload.slice::<u8>(bytemuck::cast_slice(&stored))?;
        let parts = upload.slice::<u8>(bytemuck::cast_slice(&parts))?;
        Ok(Self { function, jobs, parts, before })
    }

    /// Allocates the scratch memory of the largest range at once, so that it does not grow step by
    /// step.
    pub(super) fn prepare(&self, queue: &CudaQueue, ranges: impl Iterator<Item = Range<usize>>) -> Result<()> {
        let scratch = |range: Range<usize>| self.before[range.end].1 - self.before[range.start].1;
        queue.scratch([ranges.map(scratch).max().unwrap_or(0) as usize]).map(drop)
    }

    pub(super) fn some(&self, jobs: Range<usize>) -> JobRange<'_> {
        JobRange { on: self, jobs }
    }
}

/// Chooses the segments of the index that a warp decodes one after another: more when there are
/// many, which saves tables.
fn group(device: &Cuda, jobs: &[Job]) -> u32 {
    let segments_of = |job: &Job| {
        let n = job.row_len as usize * job.rows as usize / job.split.width();
        job.segments.map_or(0, |segments| index::n_segments(n, segments.len as usize))
    };
    let enough = 2 * BLOCKS_PER_PROCESSOR * WARPS as usize * device.n_processors() as usize;
    let times = jobs.iter().map(segments_of).sum::<usize>() / enough.max(1);
    1 << times.max(1).ilog2().min(10)
}

/// Returns whether planes need scratch: 16-bit elements with one coded plane are joined while they
/// are decoded.
fn needs_scratch(job: &Job) -> bool {
    let is_coded = |plane| matches!(job.tile.mode(plane), Ok(Mode::Bytes | Mode::Pairs));
    let n_coded = (0..job.split.width()).filter(|&plane| is_coded(plane)).count();
    n_coded > 0 && !(job.split.width() == 2 && n_coded == 1 && is_coded(0))
}

pub(super) fn run(
    queue: &CudaQueue,
    some: &JobRange<'_>,
    packed: CudaView<'_, u8>,
    out: CudaViewMut<'_, u8>,
    status: CudaViewMut<'_, i32>,
) -> Result<()> {
    let JobRange { on, jobs } = some;
    let ((first_part, first_scratch), (end_part, end_scratch)) = (on.before[jobs.start], on.before[jobs.end]);
    if jobs.is_empty() {
        return Ok(());
    }
    let [scratch_dev] = queue.scratch([(end_scratch - first_scratch) as usize])?;
    // Jobs hold offsets into the scratch and status of the whole batch.
    let scratch_dev = scratch_dev.wrapping_sub(first_scratch);
    let status_dev = status.address_dev.wrapping_sub((size_of::<i32>() * jobs.start) as u64);
    let (jobs_dev, packed_dev, out_dev) = (address::<u8>(&on.jobs)?, packed.address_dev, out.address_dev);
    let parts_dev = address::<u8>(&on.parts)? + u64::from(first_part) * size_of::<DevicePart>() as u64;
    queue.fill_zero(status.address_dev, size_of::<i32>() * jobs.len())?;
    let launch = Launch { grid: (end_part - first_part, 1, 1), block: (32 * WARPS, 1, 1), shared_bytes: 0 };
    // SAFETY: `Batch::plan` checked that records, indices and outputs are within the views, and the
    // scratch is long enough for these jobs; the kernel's parameters are (jobs, parts, packed, out,
    // scratch, status).
    unsafe {
        queue.launch(
            &on.function,
            launch,
            arguments![jobs_dev, parts_dev, packed_dev, out_dev, scratch_dev, status_dev],
        )
    }
}
