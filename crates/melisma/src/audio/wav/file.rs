//! WAV files on disk: the header is read once, samples are read at any position.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use melisma_kernels::memory::mapped::{Access, Mapped};

use super::header::{Bytes, Coding, Header};
use super::{SampleFormat, sample};
use crate::audio::clipping::Clipping;
use crate::audio::{Channel, Reads};
use crate::{Error, Result};

/// Bytes that are converted at once.
const BLOCK_BYTES: usize = 1 << 16;

/// An open WAV file. A file that shrinks while it is read gives `Truncated`, never a signal.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    len: u64,
    header: Header,
    bytes: Vec<u8>,
    reads: Reads,
    map: Option<Mapped>,
    clipping: Clipping,
}

struct OnDisk<'a>(&'a fs::File, u64);

impl Bytes for OnDisk<'_> {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(to, at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::truncated(format!("no {} bytes at byte {at} of {}", to.len(), self.1))
            }
            _ => Error::io(format!("byte {at}"), error),
        })
    }
}

impl File {
    /// Reads the header of the regular file at `path`.
    ///
    /// # Errors
    /// Those of [`super::decode`], and `Io` if the file cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::new(crate::audio::file::open_regular(path)?, Reads::Direct)
    }

    pub(crate) fn new(file: fs::File, reads: Reads) -> Result<Self> {
        let len = file.metadata().map_err(|error| Error::io("its size", error))?.len();
        let header = Header::read(&OnDisk(&file, len))?;
        Ok(Self { file, len, header, bytes: Vec::new(), reads, map: None, clipping: Clipping::default() })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns what [`File::read_mono`] found.
    pub(in crate::audio) fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// Reads mono samples as 16-bit integers, from frame `first` on.
    ///
    /// # Errors
    /// The file has fewer frames, or is not mono 16-bit, or the read fails.
    pub fn read_i16(&mut self, first: u64, to: &mut [i16]) -> Result<()> {
        let coding = self.header.coding;
        if self.header.n_channels != 1 {
            return Err(Error::invalid(format!("{} channels; one is needed", self.header.n_channels)));
        }
        let is_as_stored = coding == Coding::Little(SampleFormat::S16) && cfg!(target_endian = "little");
        if is_as_stored && self.reads != Reads::Buffered {
            self.check(first, to.len())?;
            return self.read_at(first, bytemuck::cast_slice_mut(to));
        }
        let per_block = BLOCK_BYTES / self.header.block_len();
        for (index, to) in to.chunks_mut(per_block).enumerate() {
            let bytes = self.bytes(first + (index * per_block) as u64, to.len())?;
            if !sample::to_i16(coding, bytes, to) {
                return Err(Error::invalid(format!("expected 16-bit samples, found {coding:?}")));
            }
        }
        Ok(())
    }

    /// Reads `channel` from frame `first` on.
    ///
    /// # Errors
    /// The file has no such channel or fewer frames, or the read fails.
    pub fn read_mono(&mut self, channel: Channel, first: u64, to: &mut [f32]) -> Result<()> {
        let (coding, n_channels) = (self.header.coding, self.header.n_channels);
        channel.check(n_channels)?;
        let per_block = (BLOCK_BYTES / self.header.block_len()).max(1);
        let mut all = vec![0.0; if n_channels == 1 { 0 } else { per_block * n_channels }];
        for (index, to) in to.chunks_mut(per_block).enumerate() {
            let first = first + (index * per_block) as u64;
            let bytes = self.bytes(first, to.len())?;
            if n_channels == 1 {
                sample::to_f32(coding, bytes, to);
                self.clipping.add(channel, first, to, 1);
                continue;
            }
            sample::to_f32(coding, bytes, &mut all[..to.len() * n_channels]);
            self.clipping.add(channel, first, &all[..to.len() * n_channels], n_channels);
            to.iter_mut().zip(channel.pick(&all, n_channels)).for_each(|(to, sample)| *to = sample);
        }
        Ok(())
    }

    fn check(&self, first: u64, n_frames: usize) -> Result<()> {
        let end = first.saturating_add(n_frames as u64);
        if end > self.header.n_frames() {
            let message = format!("frames {first} to {end} of {}", self.header.n_frames());
            return Err(Error::truncated(message));
        }
        Ok(())
    }

    fn bytes(&mut self, first: u64, n_frames: usize) -> Result<&[u8]> {
        self.check(first, n_frames)?;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(n_frames * self.header.block_len(), 0);
        let read = self.read_at(first, &mut bytes);
        self.bytes = bytes;
        read.map(|()| &self.bytes[..])
    }

    /// Reads the bytes of whole frames.
    fn read_at(&mut self, first: u64, to: &mut [u8]) -> Result<()> {
        let at = self.header.data_at + first * self.header.block_len() as u64;
        if self.reads != Reads::Mapped {
            return OnDisk(&self.file, self.len).read_at(at, to);
        }
        if self.map.is_none() {
            let map = Mapped::new(&self.file, self.len as usize, Access::ReadAhead);
            self.map = Some(map.map_err(|error| Error::io("mapping it", error))?);
        }
        let read = self.map.as_ref().map_or(Ok(()), |map| map.read(at as usize, to));
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::truncated(format!("no {} bytes at byte {at} of {}", to.len(), self.len))
            }
            _ => Error::io(format!("byte {at}"), error),
        })
    }
}
