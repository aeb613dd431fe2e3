//! Decodes packed files on a GPU and returns the bytes to the host in order, one group of runs at a
//! time.

use melisma_kernels::{Buffer, Device};

use super::archive::Archive;
use super::load::{DECODED, Decoding, Loader, MAX_WORKERS, PIECE};
use super::piece::{Limits, Span};
use crate::runtime::memory::{Budget, Space};
use crate::{Error, Result};

/// Decoded bytes that are copied back at once.
const GROUP: u64 = 64 << 20;

/// A run of tiles, and the position of its bytes.
struct Part {
    tensor: usize,
    /// Offset within the tensor.
    at: u64,
    len: usize,
}

/// The memory that decoding needs.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    limits: Limits,
    workers: u64,
    /// Decoded bytes of a group.
    group: u64,
    /// Bytes of the metadata of the tiles.
    known: u64,
}

/// What to decode, and on which device.
pub(super) struct Work<'a> {
    pub(super) gpu: &'a Device,
    /// Threads that read and copy.
    pub(super) threads: usize,
    /// Pairs of a tensor and a run in it.
    pub(super) runs: &'a [(usize, u64)],
}

/// Decodes runs on a GPU. The bytes of each run pass through `finish(tensor, at, bytes)`, and then
/// go to `take` in order.
pub(super) fn decode(
    archive: &Archive<'_>,
    work: &Work<'_>,
    finish: impl Fn(usize, u64, &mut [u8]) -> Result<()>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if work.runs.is_empty() {
        return Ok(());
    }
    let sizes = sizes(archive, work)?;
    let mut loader = Loader::with(work.gpu, &archive.budget, sizes.limits, sizes.workers as usize)?;
    let (mut groups, mut parts) = (Vec::new(), Vec::new());
    let (mut spans, mut members, mut end) = (Vec::new(), Vec::new(), 0);
    for &(tensor, run) in work.runs {
        let run = archive.contents.blobs[tensor].layout.run(run);
        let len = run.bytes.end - run.bytes.start;
        if end + len > sizes.group && end > 0 {
            groups.push(std::mem::take(&mut spans));
            parts.push(std::mem::take(&mut members));
            end = 0;
        }
        spans.push(Span { tensor, tiles: run.tiles, from: run.bytes.start, to: end as usize });
        members.push(Part { tensor, at: run.bytes.start, len: len as usize });
        end += len;
    }
    groups.push(spans);
    parts.push(members);
    let mut decoding = Decoding::new(&loader, archive, groups.into_iter(), sizes.group as usize)?;
    let mut on_device = loader.buffer(sizes.group as usize)?;
    let mut back = match work.gpu {
        Device::Cpu(_) => Buffer::host(&archive.budget, sizes.group as usize)?,
        Device::Cuda(cuda) => Buffer::pinned(cuda, &archive.budget, sizes.group as usize)?,
    };
    for (group, parts) in parts.iter().enumerate() {
        decoding.run(&mut loader, archive, group, &mut on_device)?;
        let len = parts.iter().map(|part| part.len).sum();
        decoding.copy_back(&loader, &on_device, &mut back, len)?;
        let mut rest = back.view_mut::<u8>()?.first(len)?.host()?;
        for &Part { tensor, at, len } in parts {
            let (bytes, others) = rest.split_at_mut(len);
            finish(tensor, at, bytes)?;
            take(bytes)?;
            rest = others;
        }
    }
    Ok(())
}

/// Fails if the budget has no room for the work.
pub(super) fn check(archive: &Archive<'_>, work: &Work<'_>) -> Result<()> {
    sizes(archive, work).map(drop)
}

/// Returns the fastest configuration that fits the budget, down to one tile at a time.
fn sizes(archive: &Archive<'_>, work: &Work<'_>) -> Result<Sizes> {
    let (mut largest_run, mut largest_tile, mut largest_record, mut total, mut n_tiles) = (0, 0, 0, 0, 0);
    for &(tensor, run) in work.runs {
        let blob = &archive.contents.blobs[tensor];
        let run = blob.layout.run(run);
        let len = run.bytes.end - run.bytes.start;
        (largest_run, total) = (largest_run.max(len), total + len);
        n_tiles += run.tiles.end - run.tiles.start;
        for number in run.tiles {
            let index = archive.contents.index.as_ref().and_then(|index| index.of(tensor, number as usize));
            let record = u64::from(blob.tiles[number as usize].len) + index.map_or(0, |(_, len)| len);
            largest_record = largest_record.max(record);
            largest_tile = largest_tile.max(blob.layout.tile_len(number) as u64);
        }
    }
    let known = archive.known_bytes() + n_tiles * 256;
    let with = |workers: u64, piece: u64, group: u64| {
        let limits = Limits {
            piece,
            staging: piece.min(total) + largest_record,
            decoded: largest_tile.max(if piece == 0 { 0 } else { DECODED.min(group) }),
        };
        Sizes { limits, workers, group: group.min(total).max(largest_run), known }
    };
    let threads = work.threads.clamp(1, MAX_WORKERS) as u64;
    let tries = [threads, 4.min(threads), 2.min(threads), 1].map(|workers| with(workers, PIECE, GROUP));
    let least = with(1, 0, largest_run);
    let fits = |sizes: &&Sizes| sizes.fits(&archive.budget);
    tries.iter().chain([&least]).find(fits).copied().ok_or_else(|| least.refused(&archive.budget))
}

impl Sizes {
    /// Returns the bytes of host and device memory.
    fn bytes(&self) -> [u64; 2] {
        let Self { limits, workers, group, known } = *self;
        [workers * limits.staging + group + known, workers * (limits.staging + limits.decoded + 512) + group + known]
    }

    fn fits(&self, budget: &Budget) -> bool {
        let [host, device] = self.bytes();
        let held = budget.reserve(Space::Host, host);
        held.is_ok() && budget.reserve(Space::Device, device).is_ok()
    }

    fn refused(&self, budget: &Budget) -> Error {
        let [host, device] = self.bytes();
        let in_use = [Space::Host, Space::Pinned].map(|space| budget.usage(space).now).iter().sum::<u64>();
        super::memory::refused(in_use + host.max(device), budget.limit(Space::Host).unwrap_or(u64::MAX))
    }
}
