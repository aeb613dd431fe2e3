//! Loads models straight into device memory. Each worker has its own stream and staging memory. It
//! reads a piece of the file, starts its copy and its decoding, and moves on to the next piece, so
//! that all three overlap.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use melisma_kernels::lock::Mutex;
use melisma_kernels::rans::{Batch, Lens};
use melisma_kernels::{Buffer, DType, Device, Element, Queue, View};

use super::archive::Archive;
use super::index::open;
use super::is_packed;
use super::layout::Layout;
use super::piece::{Limits, MAX_RECORD, Piece, Plan, Span};
use super::storage::ReadAt;
use crate::format::safetensors::{Header, TensorEntry};
use crate::runtime::memory::{Budget, Space};
use crate::runtime::thread;
use crate::{Context, Error, ErrorKind, Remedy, Result};

/// Alignment of tensors in device memory.
const ALIGN: usize = 256;
/// A piece is closed once it has this many bytes.
pub(super) const PIECE: u64 = 8 << 20;
/// The most bytes that a piece may decode to. This bounds the scratch memory of a worker.
pub(super) const DECODED: u64 = 32 << 20;
pub(super) const MAX_WORKERS: usize = 8;

/// Loads the file at `path`, packed or plain, into host memory.
///
/// ```
/// use melisma::{Existing, pack};
/// # use melisma::pack::Array;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.packed.safetensors");
/// # let packed = pack::compress(&Array::new(&[1.0f32, 2.0], &[2])?, &melisma::Budget::unlimited())?;
/// # melisma::output::write(&path, &packed, Existing::Refuse)?;
/// let model = pack::load(path)?;
/// for tensor in model.tensors() {
///     println!("{}: {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// assert_eq!(model.view::<f32>("array")?.host()?, [1.0, 2.0]);
/// # Ok::<(), melisma::Error>(())
/// ```
///
/// # Errors
/// As [`Loader::load`], or it cannot be opened.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    load_in(&Context::cpu()?, path)
}

/// Loads the file at `path`, packed or plain, into the memory of the context's device.
///
/// # Errors
/// As [`Loader::load`], or it cannot be opened.
pub fn load_in(context: &Context, path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    let loaded = load_to_device(&open(path)?, context.device(), context.budget());
    loaded.map_err(|error| error.at(path.display()))
}

/// Loads `file`, packed or plain, into the memory of `device`; see [`Loader`].
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
    limits: Limits,
}

/// The resources of a worker.
#[derive(Debug)]
struct Slot {
    queue: Queue,
    staging: Buffer,
    on_device: Buffer,
}

/// A model in device memory.
#[derive(Debug)]
pub struct Loaded {
    buffer: Buffer,
    tensors: Vec<TensorEntry>,
    starts: Vec<usize>,
}

impl Loaded {
    /// Returns its tensors, in the order of the file.
    pub fn tensors(&self) -> &[TensorEntry] {
        &self.tensors
    }

    /// Returns the elements of the tensor called `name`.
    ///
    /// # Errors
    /// `InvalidArgument`: the tensor is unknown, or its elements are not of type `T`; bytes can be seen of any.
    pub fn view<T: Element>(&self, name: &str) -> Result<View<'_, T>> {
        let index = self.tensors.iter().position(|tensor| tensor.name == name);
        let index = index.ok_or_else(|| Error::invalid(format!("unknown tensor `{name}`")))?;
        let (start, len) = (self.starts[index], self.tensors[index].len() as usize);
        let stored = DType::from_safetensors(&self.tensors[index].dtype);
        if T::DTYPE != DType::U8 && stored != Some(T::DTYPE) {
            let dtype = &self.tensors[index].dtype;
            return Err(Error::invalid(format!("{name}: the tensor holds {dtype}, not {}", T::DTYPE.name())));
        }
        if !len.is_multiple_of(size_of::<T>()) {
            return Err(Error::corrupt(format!("{name}: {len} bytes are not whole elements of {}", T::DTYPE.name())));
        }
        self.buffer.view::<T>()?.range(start / size_of::<T>()..(start + len) / size_of::<T>())
    }
}

impl Loader {
    /// Creates a loader for `device` with up to eight workers, fewer if the budget has no room for
    /// them.
    ///
    /// # Errors
    /// The budget is exceeded, or the device reports an error.
    pub fn new(device: &Device, budget: &Budget) -> Result<Self> {
        let limits = Limits { piece: PIECE, staging: PIECE + MAX_RECORD, decoded: DECODED };
        let threads = melisma_kernels::available_threads().clamp(1, MAX_WORKERS) as u64;
        // Half of the memory is left for the model.
        let room = budget.free(Space::Host).min(budget.free(Space::Device)) / 2 / (2 * limits.staging + limits.decoded);
        Self::with(device, budget, limits, threads.min(room).max(1) as usize)
    }

    /// Creates a loader with `workers` workers, for pieces within `limits`.
    pub(super) fn with(device: &Device, budget: &Budget, limits: Limits, workers: usize) -> Result<Self> {
        let len = limits.staging as usize;
        let slot = || {
            let (staging, on_device) = match device {
                Device::Cpu(_) => (Buffer::host(budget, len)?, Buffer::host(budget, len)?),
                Device::Cuda(cuda) => (Buffer::pinned(cuda, budget, len)?, Buffer::device(cuda, budget, len)?),
            };
            Ok(Slot { queue: device.queue(budget)?, staging, on_device })
        };
        let slots = (0..workers).map(|_| slot()).collect::<Result<_>>()?;
        Ok(Self { device: device.clone(), budget: budget.clone(), slots, limits })
    }

    /// Loads a safetensors file, packed or plain. For a packed file, the device checks the hash of
    /// every tile.
    ///
    /// # Errors
    /// `Corrupt`, with tensor and tile, if a hash is wrong; `Unsupported` for a delta; otherwise as
    /// [`Archive::open`], or the budget is exceeded, or the device reports an error.
    pub fn load(&mut self, file: &dyn ReadAt) -> Result<Loaded> {
        let _span = tracing::info_span!("load to device").entered();
        if is_packed(file)? {
            self.load_packed(&Archive::open(file, &self.budget.clone())?)
        } else {
            self.load_plain(file)
        }
    }

    fn load_plain(&mut self, file: &dyn ReadAt) -> Result<Loaded> {
        let header = Header::read(file)?;
        header.tensors.iter().try_for_each(|tensor| Layout::of(tensor, 512).map(drop))?;
        let mut loaded = self.allocate(&header)?;
        let mut pieces = Vec::new();
        for (tensor, &start) in header.tensors.iter().zip(&loaded.starts) {
            for at in (0..tensor.len()).step_by(PIECE as usize) {
                let begin = header.len + tensor.bytes[0] + at;
                let bytes = begin..begin + PIECE.min(tensor.len() - at);
                pieces.push(Piece::plain(bytes, start + at as usize));
            }
        }
        let out = Mutex::new(&mut loaded.buffer);
        self.work(file, &pieces, |slot, piece| {
            let from = slot.on_device.view::<u8>()?.first(piece.len() as usize)?;
            let mut out = out.lock();
            let to = out.view_mut::<u8>()?.range(piece.to..piece.to + piece.len() as usize)?;
            slot.queue.copy(from, to)
        })?;
        Ok(loaded)
    }

    fn load_packed(&mut self, archive: &Archive<'_>) -> Result<Loaded> {
        if archive.is_delta() {
            return Err(Error::unsupported("a delta cannot be loaded to a device").with_hint(Remedy::Unpack));
        }
        let mut loaded = self.allocate(&archive.contents.source)?;
        let span = |(tensor, &to): (usize, &usize)| {
            let tiles = 0..archive.contents.blobs[tensor].layout.n_tiles();
            Span { tensor, tiles, from: 0, to }
        };
        let spans: Vec<Span> = loaded.starts.iter().enumerate().map(span).collect();
        let mut decoding = Decoding::new(self, archive, std::iter::once(spans), loaded.buffer.len())?;
        decoding.run(self, archive, 0, &mut loaded.buffer)?;
        Ok(loaded)
    }

    fn allocate(&self, header: &Header) -> Result<Loaded> {
        let mut starts = Vec::with_capacity(header.tensors.len());
        let mut end = 0usize;
        for tensor in &header.tensors {
            starts.push(end);
            let next = usize::try_from(tensor.len()).ok().and_then(|len| end.checked_add(len));
            let next = next.and_then(|next| next.checked_next_multiple_of(ALIGN));
            end = next.ok_or_else(|| Error::new(ErrorKind::Memory, "a model larger than the address space"))?;
        }
        Ok(Loaded { buffer: self.buffer(end)?, tensors: header.tensors.clone(), starts })
    }

    /// Allocates memory for decoded bytes.
    pub(super) fn buffer(&self, len: usize) -> Result<Buffer> {
        match &self.device {
            Device::Cpu(_) => Buffer::host(&self.budget, len),
            Device::Cuda(cuda) => Buffer::device(cuda, &self.budget, len),
        }
    }

    /// Takes pieces until none are left: reads each, copies it to the device, and passes it to
    /// `finish`.
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
            let mut start = |slot| {
                let started = thread::start_in(scope, move || share(slot));
                // Without this thread, the others need not go on.
                started.inspect_err(|_| next.store(pieces.len(), Relaxed))
            };
            let workers: Vec<_> = self.slots.iter_mut().map(&mut start).collect();
            let outcome = |worker: Result<std::thread::ScopedJoinHandle<'_, Result<()>>>| {
                worker?.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Check, "a loading thread ended early")))
            };
            // All workers are joined before an error is returned.
            let outcomes: Vec<Result<()>> = workers.into_iter().map(outcome).collect();
            outcomes.into_iter().collect()
        })
    }
}

/// Groups of tiles of an archive that are decoded one after another into the same memory.
pub(super) struct Decoding {
    plan: Plan,
    /// The pieces of each group.
    groups: Vec<Range<usize>>,
    batch: Batch,
    status: Buffer,
}

impl Decoding {
    /// Plans to decode each of `groups` into at most `out_len` bytes.
    pub(super) fn new(
        loader: &Loader,
        archive: &Archive<'_>,
        groups: impl Iterator<Item = Vec<Span>>,
        out_len: usize,
    ) -> Result<Self> {
        let mut plan = Plan::new(loader.limits);
        let groups = groups.map(|spans| plan.add(archive, &spans)).collect::<Result<_>>()?;
        let lens = Lens { packed: loader.limits.staging as usize, out: out_len };
        let batch = Batch::plan(&loader.device, &loader.budget, &plan.jobs, lens)?;
        let status = loader.buffer(size_of::<i32>() * plan.jobs.len())?;
        for slot in &loader.slots {
            batch.prepare(&slot.queue, plan.pieces.iter().map(|piece| piece.jobs.clone()))?;
        }
        Ok(Self { plan, groups, batch, status })
    }

    /// Decodes a group into `out`, and checks the hash of every tile.
    pub(super) fn run(
        &mut self,
        loader: &mut Loader,
        archive: &Archive<'_>,
        group: usize,
        out: &mut Buffer,
    ) -> Result<()> {
        let Self { plan, groups, batch, status } = self;
        let pieces = &plan.pieces[groups[group].clone()];
        let [Piece { jobs: first, .. }, ..] = pieces else { return Ok(()) };
        let jobs = first.start..pieces[pieces.len() - 1].jobs.end;
        let outputs = Mutex::new((out, &mut *status));
        loader.work(archive.file, pieces, |slot, piece| {
            let mut outputs = outputs.lock();
            let (out, status) = &mut *outputs;
            let status = status.view_mut::<i32>()?.range(piece.jobs.clone())?;
            batch.run_some(&slot.queue, piece.jobs.clone(), slot.on_device.view()?, out.view_mut()?, status)
        })?;
        let mut words = vec![0i32; jobs.len()];
        loader.slots[0].queue.copy(status.view()?.range(jobs.clone())?, words[..].as_mut().into())?;
        plan.check(archive, jobs.start, &words)
    }

    /// Copies decoded bytes to host memory.
    pub(super) fn copy_back(&self, loader: &Loader, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
        loader.slots[0].queue.copy(from.view::<u8>()?.first(len)?, to.view_mut::<u8>()?.first(len)?)
    }
}
