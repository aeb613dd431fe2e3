//! Models straight into the memory of a device. Each worker has a stream and staging memory of its own: it reads a piece
//! of the file, starts its copy and its decoding, and goes on to the next piece, so that all three overlap.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use melisma_kernels::rans::{Batch, Job, MAX_TILE_LEN, Segments, Status};
use melisma_kernels::{Buffer, Device, Element, Queue, View};

use super::archive::Archive;
use super::blob::Content;
use super::header::{Header, TensorEntry};
use super::is_packed;
use super::storage::ReadAt;
use crate::runtime::memory::Budget;
use crate::{Error, Kind, Result};

/// Tensors begin on multiples of this in the device's memory.
const ALIGN: usize = 256;
/// A piece is closed when it has this many bytes.
const PIECE: u64 = 8 << 20;
/// Above the longest record with its index: both have at most a few bytes for each of the tile's.
const MAX_RECORD: u64 = 2 * MAX_TILE_LEN as u64;
const STAGING: usize = (PIECE + MAX_RECORD) as usize;
const MAX_WORKERS: usize = 8;

/// Loads `file`, packed or not, into the memory of `device`; see [`Loader`].
///
/// # Errors
/// As [`Loader::load`].
pub fn load_to_device(file: &dyn ReadAt, device: &Device, budget: &Budget) -> Result<Loaded> {
    Loader::new(device, budget)?.load(file)
}

/// Streams and staging memory for loading models, one after another.
#[derive(Debug)]
pub struct Loader {
    device: Device,
    budget: Budget,
    slots: Vec<Slot>,
}

/// What a worker has.
#[derive(Debug)]
struct Slot {
    queue: Queue,
    staging: Buffer,
    on_device: Buffer,
}

/// A model in the memory of a device.
#[derive(Debug)]
pub struct Loaded {
    buffer: Buffer,
    tensors: Vec<TensorEntry>,
    starts: Vec<usize>,
}

impl Loaded {
    /// Its tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorEntry] {
        &self.tensors
    }

    /// The elements of the tensor called `name`.
    ///
    /// # Errors
    /// `InvalidArgument`: there is no such tensor, or it does not hold whole elements of `T`.
    pub fn view<T: Element>(&self, name: &str) -> Result<View<'_, T>> {
        let index = self.tensors.iter().position(|tensor| tensor.name == name);
        let index = index.ok_or_else(|| Error::invalid(format!("there is no tensor `{name}`")))?;
        let (start, len) = (self.starts[index], self.tensors[index].len() as usize);
        if !len.is_multiple_of(size_of::<T>()) {
            return Err(Error::invalid(format!("{name}: {len} bytes are not whole elements of {}", T::DTYPE.name())));
        }
        self.buffer.view::<T>()?.range(start / size_of::<T>()..(start + len) / size_of::<T>())
    }
}

/// Bytes of the file that one worker handles at a time.
#[derive(Debug, Default)]
struct Piece {
    bytes: Range<u64>,
    /// The indices of its tiles, staged behind its records.
    index: Range<u64>,
    /// The jobs of a packed file.
    jobs: Range<usize>,
    /// Where the bytes of a plain file go.
    to: usize,
}

impl Piece {
    fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start + self.index.end - self.index.start
    }
}

impl Loader {
    /// A loader for `device`, with up to eight workers.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn new(device: &Device, budget: &Budget) -> Result<Self> {
        let slot = || {
            let (staging, on_device) = match device {
                Device::Cpu(_) => (Buffer::host(budget, STAGING)?, Buffer::host(budget, STAGING)?),
                Device::Cuda(cuda) => (Buffer::pinned(cuda, budget, STAGING)?, Buffer::device(cuda, budget, STAGING)?),
            };
            Ok(Slot { queue: device.queue(budget)?, staging, on_device })
        };
        let workers = melisma_kernels::available_threads().clamp(1, MAX_WORKERS);
        let slots = (0..workers).map(|_| slot()).collect::<Result<_>>()?;
        Ok(Self { device: device.clone(), budget: budget.clone(), slots })
    }

    /// Loads a safetensors file, packed or not. Of a packed one every tile's hash is checked on the device.
    ///
    /// # Errors
    /// `Corrupt`, with tensor and tile, when a hash is wrong; `Unsupported` for a delta; otherwise as [`Archive::open`],
    /// or the budget or the device refuses.
    pub fn load(&mut self, file: &dyn ReadAt) -> Result<Loaded> {
        let _span = tracing::info_span!("load to device").entered();
        if is_packed(file)? { self.load_packed(&Archive::open(file)?) } else { self.load_plain(file) }
    }

    fn load_plain(&mut self, file: &dyn ReadAt) -> Result<Loaded> {
        let header = Header::read(file)?;
        let mut loaded = self.allocate(&header)?;
        let mut pieces = Vec::new();
        for (tensor, &start) in header.tensors.iter().zip(&loaded.starts) {
            for at in (0..tensor.len()).step_by(PIECE as usize) {
                let begin = header.len + tensor.bytes[0] + at;
                let bytes = begin..begin + PIECE.min(tensor.len() - at);
                pieces.push(Piece { bytes, to: start + at as usize, ..Piece::default() });
            }
        }
        let out = Mutex::new(&mut loaded.buffer);
        self.work(file, &pieces, |slot, piece| {
            let from = slot.on_device.view::<u8>()?.first(piece.len() as usize)?;
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let to = out.view_mut::<u8>()?.range(piece.to..piece.to + piece.len() as usize)?;
            slot.queue.copy(from, to)
        })?;
        Ok(loaded)
    }

    fn load_packed(&mut self, archive: &Archive<'_>) -> Result<Loaded> {
        if archive.is_delta() {
            return Err(Error::unsupported("a delta cannot be loaded to a device").with_hint("unpack it first"));
        }
        let mut loaded = self.allocate(&archive.source)?;
        let (pieces, jobs) = pieces(archive, &loaded.starts)?;
        let batch = Batch::plan(&self.device, &jobs, STAGING, loaded.buffer.len())?;
        let len = size_of::<i32>() * jobs.len();
        let mut status = match &self.device {
            Device::Cpu(_) => Buffer::host(&self.budget, len)?,
            Device::Cuda(cuda) => Buffer::device(cuda, &self.budget, len)?,
        };
        let outputs = Mutex::new((&mut loaded.buffer, &mut status));
        self.work(archive.file, &pieces, |slot, piece| {
            let mut outputs = outputs.lock().unwrap_or_else(PoisonError::into_inner);
            let (out, status) = &mut *outputs;
            let status = status.view_mut::<i32>()?.range(piece.jobs.clone())?;
            batch.run_some(&slot.queue, piece.jobs.clone(), slot.on_device.view()?, out.view_mut()?, status)
        })?;
        let mut words = vec![0i32; jobs.len()];
        self.slots[0].queue.copy(status.view()?, words[..].as_mut().into())?;
        match words.iter().position(|&word| Status::from_word(word) != Status::Whole) {
            None => Ok(loaded),
            Some(job) => Err(damaged(archive, job, Status::from_word(words[job]))),
        }
    }

    fn allocate(&self, header: &Header) -> Result<Loaded> {
        let mut starts = Vec::with_capacity(header.tensors.len());
        let mut end = 0usize;
        for tensor in &header.tensors {
            starts.push(end);
            let next = usize::try_from(tensor.len()).ok().and_then(|len| end.checked_add(len));
            let next = next.and_then(|next| next.checked_next_multiple_of(ALIGN));
            end = next.ok_or_else(|| Error::new(Kind::Memory, "a model larger than the address space"))?;
        }
        let buffer = match &self.device {
            Device::Cpu(_) => Buffer::host(&self.budget, end)?,
            Device::Cuda(cuda) => Buffer::device(cuda, &self.budget, end)?,
        };
        Ok(Loaded { buffer, tensors: header.tensors.clone(), starts })
    }

    /// Lets every worker take pieces until none is left: read, copied, then handed to `finish`.
    fn work(
        &mut self,
        file: &dyn ReadAt,
        pieces: &[Piece],
        finish: impl Fn(&mut Slot, &Piece) -> Result<()> + Sync,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let share = |slot: &mut Slot| {
            while let Some(piece) = pieces.get(next.fetch_add(1, Relaxed)) {
                let staging = slot.staging.view_mut::<u8>()?.host()?;
                let (records, rest) = staging.split_at_mut((piece.bytes.end - piece.bytes.start) as usize);
                {
                    let _span = tracing::info_span!("read", bytes = piece.len()).entered();
                    file.read_at(piece.bytes.start, records)?;
                    file.read_at(piece.index.start, &mut rest[..(piece.index.end - piece.index.start) as usize])?;
                }
                slot.queue.start_copy(&slot.staging, &mut slot.on_device, piece.len() as usize)?;
                finish(slot, piece)?;
            }
            slot.queue.synchronize()
        };
        let share = &share;
        std::thread::scope(|scope| {
            let workers: Vec<_> = self.slots.iter_mut().map(|slot| scope.spawn(move || share(slot))).collect();
            let outcome = |worker: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                worker.join().unwrap_or_else(|_| Err(Error::new(Kind::Check, "a loading thread ended early")))
            };
            // All of them are joined before an error is returned.
            let outcomes: Vec<Result<()>> = workers.into_iter().map(outcome).collect();
            outcomes.into_iter().collect()
        })
    }
}

/// Cuts the records of an archive into pieces of whole tiles, with a job for each tile.
fn pieces(archive: &Archive<'_>, starts: &[usize]) -> Result<(Vec<Piece>, Vec<Job>)> {
    let (mut pieces, mut jobs) = (Vec::new(), Vec::new());
    let mut piece = Piece::default();
    for (index, (blob, &start)) in archive.blobs.iter().zip(starts).enumerate() {
        debug_assert!(blob.content == Content::Plain);
        let layout = &blob.layout;
        let width = layout.split.width() as u64;
        for (number, (tile, &at)) in blob.tiles.iter().zip(&blob.starts).enumerate() {
            let of_index = archive.index.as_ref().and_then(|found| found.of(index, number));
            let index_len = of_index.map_or(0, |(_, len)| len);
            if u64::from(tile.len) + index_len > MAX_RECORD || !tile.len.is_multiple_of(16) {
                let message = format!("a record of {} bytes", tile.len);
                return Err(Error::new(Kind::Corrupt, message).at(&archive.source.tensors[index].name));
            }
            let end = at + u64::from(tile.len);
            // What lies between two tensors' records is read with them, if it is little.
            let with_it = end - piece.bytes.start + piece.index.end - piece.index.start + index_len;
            let is_full = piece.len() >= PIECE || with_it > STAGING as u64;
            if piece.jobs.is_empty() || is_full {
                close(&mut pieces, std::mem::take(&mut piece), &mut jobs);
                let first = of_index.map_or(0, |(segments, _)| segments.at);
                piece = Piece { bytes: at..at, index: first..first, jobs: jobs.len()..jobs.len(), to: 0 };
            }
            let [rows, cols] = layout.tile(number as u64);
            let segments = of_index.map(|(segments, len)| {
                if piece.index.is_empty() {
                    piece.index = segments.at..segments.at;
                }
                let at = segments.at - piece.index.start;
                piece.index.end = segments.at + len;
                Segments { at, ..segments }
            });
            jobs.push(Job {
                split: layout.split,
                number: number as u64,
                tile: *tile,
                record: at - piece.bytes.start,
                out: start as u64 + (rows.start * layout.cols + cols.start) * width,
                row_len: ((cols.end - cols.start) * width) as u32,
                rows: (rows.end - rows.start) as u32,
                row_step: layout.cols * width,
                segments,
            });
            (piece.bytes.end, piece.jobs.end) = (end, jobs.len());
        }
    }
    close(&mut pieces, piece, &mut jobs);
    Ok((pieces, jobs))
}

/// Completes a piece: its indices are staged behind its records.
fn close(pieces: &mut Vec<Piece>, piece: Piece, jobs: &mut [Job]) {
    if piece.jobs.is_empty() {
        return;
    }
    let records_len = piece.bytes.end - piece.bytes.start;
    for segments in jobs[piece.jobs.clone()].iter_mut().filter_map(|job| job.segments.as_mut()) {
        segments.at += records_len;
    }
    pieces.push(piece);
}

fn damaged(archive: &Archive<'_>, job: usize, status: Status) -> Error {
    let what = match status {
        Status::Stream => "a stream does not end where it should",
        Status::Hash => "the tile's hash is wrong",
        _ => "its record contradicts the format",
    };
    let mut before = 0;
    for (tensor, blob) in archive.source.tensors.iter().zip(&archive.blobs) {
        if job < before + blob.tiles.len() {
            return Error::new(Kind::Corrupt, what).at(format!("{}, tile {}", tensor.name, job - before));
        }
        before += blob.tiles.len();
    }
    Error::new(Kind::Corrupt, what)
}
