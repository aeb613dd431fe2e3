//! Unpacks files: whole, a single tensor, or only checking them.

use melisma_kernels::Isa;
use melisma_kernels::lock::Mutex;
use melisma_kernels::rans::Decoder;

use super::archive::Archive;
use super::blob::Content;
use super::hash::hash_first;
use super::in_order::in_order;
use super::layout::{Run, Runs};
use super::memory::{self, resize};
use super::storage::Append;
use super::stream;
use super::trailer::HASH_LEN;
use crate::{Error, Remedy, Result};

/// The reusable state of a worker.
struct Worker {
    decoder: Decoder,
    record: Vec<u8>,
    tile: Vec<u8>,
}

impl Worker {
    fn new(isa: Isa) -> Self {
        Self { decoder: Decoder::new(isa), record: Vec::new(), tile: Vec::new() }
    }
}

/// A run and its place in memory.
struct Part<'a> {
    tensor: usize,
    run: u64,
    bytes: &'a mut [u8],
}

impl Archive<'_> {
    /// Writes the source file, byte for byte, on `threads` threads. The hash of the whole file is
    /// checked before anything is written, and the hash of every tile before that tile is written.
    /// `progress` receives the number of bytes as they are written.
    ///
    /// # Errors
    /// `Corrupt`, with tensor and tile, if a hash is wrong; `InvalidArgument` for a delta without
    /// its base; `Memory` if the budget has no room for one row of tiles; `Io` if writing fails.
    pub fn unpack(&self, out: &mut dyn Append, threads: usize, progress: &dyn Fn(u64)) -> Result<()> {
        self.check_base(0..self.contents.blobs.len())?;
        self.check_room(0..self.contents.blobs.len(), threads)?;
        self.check_hash()?;
        out.append(&self.contents.trailer.header)?;
        self.runs(0..self.contents.blobs.len(), threads, &mut |bytes| {
            out.append(bytes)?;
            progress(bytes.len() as u64);
            Ok(())
        })
    }

    /// Writes the bytes of one tensor; reads only its blob.
    ///
    /// # Errors
    /// `InvalidArgument`: no such tensor. Otherwise as [`Archive::unpack`].
    pub fn unpack_tensor(&self, name: &str, out: &mut dyn Append, threads: usize) -> Result<()> {
        let index = self.find(name)?;
        self.check_base(index..index + 1)?;
        self.check_room(index..index + 1, threads)?;
        self.runs(index..index + 1, threads, &mut |bytes| out.append(bytes))
    }

    /// Writes the bytes of tensors to the slices beside their names. The threads go from one tensor to
    /// the next, and decode in place.
    ///
    /// # Errors
    /// `InvalidArgument`: no such tensor, one that is named twice, or a slice of another length. Otherwise as [`Archive::unpack`].
    pub fn unpack_into(&self, targets: Vec<(&str, &mut [u8])>, threads: usize) -> Result<()> {
        let mut parts = Vec::new();
        let mut tensors = self.contents.blobs.len()..0;
        for (name, target) in targets {
            let index = self.find(name)?;
            let (needed, given) = (self.contents.source.tensors[index].len(), target.len());
            if needed != given as u64 {
                return Err(Error::invalid(format!("{name}: {given} bytes for a tensor of {needed}")));
            }
            tensors = tensors.start.min(index)..tensors.end.max(index + 1);
            parts.extend(self.parts_of(index, target));
        }
        if parts.is_empty() {
            return Ok(());
        }
        // In the order of the file.
        parts.sort_by_key(|part| (part.tensor, part.run));
        if let Some([twice, _]) = parts.array_windows().find(|[a, b]| (a.tensor, a.run) == (b.tensor, b.run)) {
            let name = &self.contents.source.tensors[twice.tensor].name;
            return Err(Error::invalid(format!("{name} is named twice")));
        }
        self.check_base(tensors.clone())?;
        self.check_room(tensors.clone(), threads)?;
        if let Some(gpu) = &self.gpu {
            let runs: Vec<_> = parts.iter().map(|part| (part.tensor, part.run)).collect();
            let mut each = parts.into_iter();
            let work = stream::Work { gpu, threads, runs: &runs };
            return stream::decode(self, &work, |tensor, at, bytes| self.complete(tensor, at, bytes), &mut |bytes| {
                each.next().into_iter().for_each(|part| part.bytes.copy_from_slice(bytes));
                Ok(())
            });
        }
        let isa = Isa::from_env()?;
        let (workers, _held) = self.decoding_need(tensors).workers(threads, &self.budget)?;
        let parts: Vec<Mutex<Part<'_>>> = parts.into_iter().map(Mutex::new).collect();
        in_order(
            workers,
            parts.len(),
            || Worker::new(isa),
            |worker, index, (): &mut ()| {
                let mut part = parts[index].lock();
                let Part { tensor, run, bytes } = &mut *part;
                let run = self.contents.blobs[*tensor].layout.run(*run);
                self.decode_run(worker, *tensor, &run, bytes)?;
                self.complete(*tensor, run.bytes.start, bytes)
            },
            |_, ()| Ok(()),
        )
    }

    /// Returns the runs of a tensor, each with its bytes of `target`.
    fn parts_of<'t>(&self, tensor: usize, mut target: &'t mut [u8]) -> Vec<Part<'t>> {
        let layout = &self.contents.blobs[tensor].layout;
        let part = |run: u64| {
            let span = layout.run(run).bytes;
            let (bytes, rest) = std::mem::take(&mut target).split_at_mut((span.end - span.start) as usize);
            target = rest;
            Part { tensor, run, bytes }
        };
        (0..layout.n_runs()).map(part).collect()
    }

    /// Fails for a delta without its base, before anything is written.
    fn check_base(&self, mut tensors: std::ops::Range<usize>) -> Result<()> {
        match tensors.find(|&index| self.contents.blobs[index].content == Content::Delta) {
            Some(index) => self.apply_base(index, 0, &mut []),
            None => Ok(()),
        }
    }

    /// Fails if the budget is too small, before anything is read or written.
    fn check_room(&self, tensors: std::ops::Range<usize>, threads: usize) -> Result<()> {
        match &self.gpu {
            Some(gpu) => stream::check(self, &stream::Work { gpu, threads, runs: &self.runs_of(tensors) }),
            None => memory::check(self.decoding_need(tensors).least(), &self.budget),
        }
    }

    /// Returns the runs of these tensors, in order.
    fn runs_of(&self, tensors: std::ops::Range<usize>) -> Vec<(usize, u64)> {
        tensors
            .flat_map(|tensor| (0..self.contents.blobs[tensor].layout.n_runs()).map(move |run| (tensor, run)))
            .collect()
    }

    /// Checks everything: the hash of the file, and every tile by decoding it. `progress` receives
    /// the number of bytes as they are decoded.
    ///
    /// # Errors
    /// `Corrupt` if anything is wrong; `Memory` if the budget has no room for one row of tiles.
    pub fn check(&self, threads: usize, progress: &dyn Fn(u64)) -> Result<()> {
        self.check_room(0..self.contents.blobs.len(), threads)?;
        self.check_hash()?;
        self.check_tiles(threads, progress)
    }

    /// Checks the hash of the whole file.
    ///
    /// # Errors
    /// `Corrupt` if it is wrong.
    pub fn check_hash(&self) -> Result<()> {
        if hash_first(self.file, self.file.size()? - HASH_LEN as u64)? == self.stored_hash()? {
            return Ok(());
        }
        Err(Error::corrupt("the hash of the whole file is wrong").with_hint(Remedy::UnpackTensors))
    }

    pub(super) fn check_tiles(&self, threads: usize, progress: &dyn Fn(u64)) -> Result<()> {
        let tensors = 0..self.contents.blobs.len();
        self.decode_runs(tensors, threads, |_, _, _| Ok(()), &mut |bytes| {
            progress(bytes.len() as u64);
            Ok(())
        })
    }

    /// Passes the bytes of these tensors to `take` in order.
    fn runs(
        &self,
        tensors: std::ops::Range<usize>,
        threads: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.decode_runs(tensors, threads, |tensor, at, bytes| self.complete(tensor, at, bytes), take)
    }

    /// Turns decoded bytes of a tensor, from `at` on, into those of the source.
    fn complete(&self, tensor: usize, at: u64, bytes: &mut [u8]) -> Result<()> {
        match self.contents.blobs[tensor].content {
            Content::Plain => Ok(()),
            Content::Delta => self.apply_base(tensor, at, bytes),
        }
    }

    fn decode_runs(
        &self,
        tensors: std::ops::Range<usize>,
        threads: usize,
        finish: impl Fn(usize, u64, &mut [u8]) -> Result<()> + Sync,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if let Some(gpu) = &self.gpu {
            let work = stream::Work { gpu, threads, runs: &self.runs_of(tensors) };
            return stream::decode(self, &work, finish, take);
        }
        let isa = Isa::from_env()?;
        let runs = Runs::new(self.contents.blobs[tensors.clone()].iter().map(|blob| blob.layout.n_runs()));
        let (workers, _held) = self.decoding_need(tensors.clone()).workers(threads, &self.budget)?;
        in_order(
            workers,
            runs.len(),
            || Worker::new(isa),
            |worker, index, bytes: &mut Vec<u8>| {
                let (tensor, run) = runs.get(index);
                let tensor = tensors.start + tensor;
                let run = self.contents.blobs[tensor].layout.run(run);
                resize(bytes, (run.bytes.end - run.bytes.start) as usize);
                self.decode_run(worker, tensor, &run, bytes)?;
                finish(tensor, run.bytes.start, bytes)
            },
            |_, bytes| take(bytes),
        )
    }

    fn decode_run(&self, worker: &mut Worker, tensor: usize, run: &Run, bytes: &mut [u8]) -> Result<()> {
        let layout = &self.contents.blobs[tensor].layout;
        for number in run.tiles.clone() {
            let [first, step, row_len] = layout.rows_in_run(number);
            if step == row_len {
                self.decode_tile(&mut worker.decoder, tensor, number, &mut worker.record, bytes)?;
                continue;
            }
            resize(&mut worker.tile, layout.tile_len(number));
            self.decode_tile(&mut worker.decoder, tensor, number, &mut worker.record, &mut worker.tile)?;
            for (row, from) in bytes[first..].chunks_mut(step).zip(worker.tile.chunks(row_len)) {
                row[..row_len].copy_from_slice(from);
            }
        }
        Ok(())
    }
}
