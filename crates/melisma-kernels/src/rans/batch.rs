//! Decodes many tiles at once: on the CPU's threads, or with one launch on a GPU, directly into
//! device memory.

use std::ops::Range;

use super::cuda::{self, OnCuda};
use super::decode::Decoder;
use super::job::{Job, Status};
use super::record::MAX_TILE_LEN;
use crate::lock::Mutex;
use crate::memory::view::check_len;
use crate::queue::{CpuQueue, OnDevice, Pair, kernel_span};
use crate::{Budget, Cpu, Device, Error, Isa, Queue, Result, View, ViewMut};

/// Lengths of a run's views, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lens {
    /// The records.
    pub packed: usize,
    /// The decoded tiles.
    pub out: usize,
}

/// A batch of tiles on one device.
#[derive(Debug)]
pub struct Batch {
    jobs: Vec<Job>,
    packed_len: usize,
    out_len: usize,
    on: OnDevice<Decoders, Box<OnCuda>>,
}

/// Idle decoders, each with room for a tile.
#[derive(Debug)]
struct Decoders {
    waiting: Mutex<Vec<(Decoder, Vec<u8>)>>,
    isa: Isa,
}

impl Batch {
    /// Plans to decode `jobs` from records into outputs of `lens` bytes. Outputs must not overlap.
    ///
    /// # Errors
    /// `InvalidArgument`: a record or an output is outside these, or not aligned; `Memory`: the
    /// budget refuses; `Device`: the device refuses.
    pub fn plan(device: &Device, budget: &Budget, jobs: &[Job], lens: Lens) -> Result<Self> {
        let Lens { packed: packed_len, out: out_len } = lens;
        for (index, job) in jobs.iter().enumerate() {
            check(job, packed_len as u64, out_len as u64).map_err(|error| error.at(format!("job {index}")))?;
        }
        let decoders = |cpu: Cpu| Ok(Decoders { waiting: Mutex::default(), isa: cpu.isa });
        let on = OnDevice::new(device, decoders, |cuda| OnCuda::new(cuda, budget, jobs).map(Box::new))?;
        Ok(Self { jobs: jobs.to_vec(), packed_len, out_len, on })
    }

    /// Allocates memory on `queue` for the largest of these ranges of tiles, so that no run of them
    /// needs more.
    ///
    /// # Errors
    /// The budget or the device refuses, or the queue belongs to a different device than the plan.
    pub fn prepare(&self, queue: &Queue, ranges: impl Iterator<Item = Range<usize>>) -> Result<()> {
        match self.on.with(queue, "rans")? {
            Pair::Cpu(..) => Ok(()),
            Pair::Cuda(on, queue) => on.prepare(queue, ranges),
        }
    }

    /// Returns the number of tiles.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns whether it has no tiles.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Decodes all tiles; `status` gets one word per tile, see [`Status::from_word`]. The bytes of
    /// a damaged tile are unspecified; it does not affect other tiles.
    ///
    /// # Errors
    /// A view's length or place differs from the plan, or the device fails. Damaged tiles are not
    /// errors here.
    pub fn run(
        &self,
        queue: &Queue,
        packed: View<'_, u8>,
        out: ViewMut<'_, u8>,
        status: ViewMut<'_, i32>,
    ) -> Result<()> {
        self.run_some(queue, 0..self.jobs.len(), packed, out, status)
    }

    /// Works like [`Batch::run`], for a range of the tiles: `packed` has their records, `status` one word
    /// for each.
    ///
    /// # Errors
    /// As for [`Batch::run`], or the range exceeds the number of tiles.
    pub fn run_some(
        &self,
        queue: &Queue,
        tiles: Range<usize>,
        packed: View<'_, u8>,
        out: ViewMut<'_, u8>,
        status: ViewMut<'_, i32>,
    ) -> Result<()> {
        let jobs = self.jobs.get(tiles.clone());
        let jobs =
            jobs.ok_or_else(|| Error::invalid(format!("rans: tiles {tiles:?} are not among {}", self.jobs.len())))?;
        check_len("rans: packed", packed.len(), self.packed_len)?;
        check_len("rans: output", out.len(), self.out_len)?;
        check_len("rans: status", status.len(), jobs.len())?;
        let bytes: u64 =
            jobs.iter().map(|job| u64::from(job.tile.len) + u64::from(job.row_len) * u64::from(job.rows)).sum();
        let _span = kernel_span!(queue, "rans", [jobs.len()], bytes);
        match self.on.with(queue, "rans")? {
            Pair::Cpu(Decoders { waiting, isa }, queue) => {
                let place = OnCpu { jobs, decoders: waiting, isa: *isa };
                place.run(queue, packed.host()?, out.host()?, status.host()?);
                Ok(())
            }
            Pair::Cuda(on, queue) => cuda::run(queue, &on.some(tiles), packed.cuda()?, out.cuda()?, status.cuda()?),
        }
    }
}

/// Tiles for the CPU.
struct OnCpu<'a> {
    jobs: &'a [Job],
    decoders: &'a Mutex<Vec<(Decoder, Vec<u8>)>>,
    isa: Isa,
}

impl OnCpu<'_> {
    fn run(&self, queue: &CpuQueue, packed: &[u8], out: &mut [u8], status: &mut [i32]) {
        let isa = self.isa;
        let lock = || self.decoders.lock();
        let (out, status) = (Mutex::new(out), Mutex::new(status));
        queue.run(self.jobs.len(), |index| {
            let (mut decoder, mut tile) = lock().pop().unwrap_or_else(|| (Decoder::new(isa), Vec::new()));
            let job = &self.jobs[index];
            let record = &packed[job.record as usize..][..job.tile.len as usize];
            tile.resize(job.row_len as usize * job.rows as usize, 0);
            let decoded = decoder.try_decode(job.split, job.number, &job.tile, record, &mut tile);
            let outcome = decoded.map_or_else(|fault| fault.status, |()| Status::Whole);
            if outcome == Status::Whole {
                let mut out = out.lock();
                for (row, bytes) in tile.chunks(job.row_len.max(1) as usize).enumerate() {
                    let at = (job.out + row as u64 * job.row_step) as usize;
                    out[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            status.lock()[index] = outcome as i32;
            lock().push((decoder, tile));
        });
    }
}

fn check(job: &Job, packed_len: u64, out_len: u64) -> Result<()> {
    let width = job.split.width() as u64;
    let len = u64::from(job.row_len) * u64::from(job.rows);
    if len > MAX_TILE_LEN as u64 || !u64::from(job.row_len).is_multiple_of(width) {
        return Err(Error::invalid(format!("{} rows of {} bytes do not make a tile", job.rows, job.row_len)));
    }
    let end = job.record.checked_add(job.tile.len.into());
    // In no mode is a plane longer than its bytes plus its tables.
    if job.tile.len as usize > 2 * MAX_TILE_LEN {
        return Err(Error::invalid(format!("a record of {} bytes is too long", job.tile.len)));
    }
    if end.is_none_or(|end| end > packed_len) || !job.record.is_multiple_of(16) {
        return Err(Error::invalid(format!("bad record at byte {} of {packed_len}", job.record)));
    }
    if let Some(segments) = job.segments {
        segments.check(job.split, &job.tile, (len / width) as usize, packed_len)?;
    }
    let last = u64::from(job.rows.saturating_sub(1)).checked_mul(job.row_step);
    let end = last.and_then(|last| last.checked_add(job.out)?.checked_add(job.row_len.into()));
    if job.rows > 1 && job.row_step > u32::MAX.into() {
        return Err(Error::unsupported(format!("rows that are {} bytes apart", job.row_step)));
    }
    let is_inside = len == 0 || end.is_some_and(|end| end <= out_len);
    if !is_inside || (job.rows > 1 && job.row_step < job.row_len.into()) {
        return Err(Error::invalid(format!("bad output at byte {} of {out_len}", job.out)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rans::{Encoder, Split};

    #[test]
    fn jobs_that_do_not_fit_are_refused() {
        let mut record = Vec::new();
        let tile = Encoder::new(Isa::best()).encode(Split::Bytes2, 0, &[7; 192], &mut record).unwrap();
        let (split, segments) = (Split::Bytes2, None);
        let job = Job { split, number: 0, tile, record: 16, out: 4, row_len: 64, rows: 3, row_step: 70, segments };
        let (device, budget) = (Device::cpu().unwrap(), Budget::unlimited());
        let lens = Lens { packed: 16 + tile.len as usize, out: 4 + 2 * 70 + 64 };
        let plan = |job: Job| Batch::plan(&device, &budget, &[job], lens).map(|batch| batch.len());
        assert_eq!(plan(job).unwrap(), 1);
        for (wrong, message) in [
            (Job { record: 8, ..job }, "bad record at byte 8"),
            (Job { record: 32, ..job }, "bad record at byte 32"),
            (Job { out: 5, ..job }, "bad output at byte 5"),
            (Job { row_step: 63, ..job }, "bad output at byte 4"),
            (Job { row_len: 63, ..job }, "3 rows of 63 bytes"),
        ] {
            let refused = plan(wrong).unwrap_err().to_string();
            assert!(refused.contains(message), "{refused}");
        }
    }
}
