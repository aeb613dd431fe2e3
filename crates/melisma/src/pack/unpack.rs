//! Unpacks files: whole, a single tensor, or only checking them.

use melisma_kernels::Isa;
use melisma_kernels::rans::Decoder;

use super::archive::Archive;
use super::blob::Content;
use super::hash::hash_first;
use super::in_order::in_order;
use super::layout::Runs;
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

impl Archive<'_> {
    /// Writes the source file, byte for byte, on `threads` threads. The hash of the whole file is
    /// checked before anything is written, and the hash of every tile before that tile is written.
    /// `progress` receives the number of bytes as they are written.
    ///
    /// # Errors
    /// `Corrupt`, with tensor and tile, if a hash is wrong; `InvalidArgument` for a delta without
    /// its base; `Memory` if the budget has no room for one row of tiles; `Io` if writing fails.
    pub fn unpack(&self, out: &mut dyn Append, threads: usize, progress: &dyn Fn(u64)) -> Result<()> {
        self.check_base(0..self.blobs.len())?;
        self.check_room(0..self.blobs.len(), threads)?;
        self.check_hash()?;
        out.append(&self.trailer.header)?;
        self.runs(0..self.blobs.len(), threads, &mut |bytes| {
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

    /// Fails for a delta without its base, before anything is written.
    fn check_base(&self, mut tensors: std::ops::Range<usize>) -> Result<()> {
        match tensors.find(|&index| self.blobs[index].content == Content::Delta) {
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

    /// The runs of these tensors, in order.
    fn runs_of(&self, tensors: std::ops::Range<usize>) -> Vec<(usize, u64)> {
        tensors.flat_map(|tensor| (0..self.blobs[tensor].layout.n_runs()).map(move |run| (tensor, run))).collect()
    }

    /// Checks everything: the hash of the file, and every tile by decoding it. `progress` receives
    /// the number of bytes as they are decoded.
    ///
    /// # Errors
    /// `Corrupt` if anything is wrong; `Memory` if the budget has no room for one row of tiles.
    pub fn check(&self, threads: usize, progress: &dyn Fn(u64)) -> Result<()> {
        self.check_room(0..self.blobs.len(), threads)?;
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
        let tensors = 0..self.blobs.len();
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
        let with_base = |index: usize, at: u64, bytes: &mut [u8]| match self.blobs[index].content {
            Content::Plain => Ok(()),
            Content::Delta => self.apply_base(index, at, bytes),
        };
        self.decode_runs(tensors, threads, with_base, take)
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
        let runs = Runs::new(self.blobs[tensors.clone()].iter().map(|blob| blob.layout.n_runs()));
        let (workers, _held) = self.decoding_need(tensors.clone()).workers(threads, &self.budget)?;
        in_order(
            workers,
            runs.len(),
            || Worker { decoder: Decoder::new(isa), record: Vec::new(), tile: Vec::new() },
            |worker, index, bytes: &mut Vec<u8>| {
                let (tensor, run) = runs.get(index);
                let at = self.decode_run(worker, tensors.start + tensor, run, bytes)?;
                finish(tensors.start + tensor, at, bytes)
            },
            |_, bytes| take(bytes),
        )
    }

    /// Decodes a run, and returns its offset within the tensor.
    fn decode_run(&self, worker: &mut Worker, tensor: usize, run: u64, bytes: &mut Vec<u8>) -> Result<u64> {
        let layout = &self.blobs[tensor].layout;
        let run = layout.run(run);
        resize(bytes, (run.bytes.end - run.bytes.start) as usize);
        for number in run.tiles {
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
        Ok(run.bytes.start)
    }
}
