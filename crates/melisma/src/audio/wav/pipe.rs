//! WAV from a pipe: samples leave as they arrive, whatever size the header declares.

use std::cell::RefCell;
use std::io::{ErrorKind, Read};

use super::header::{Bytes, Header, OPEN_END, too_short};
use super::sample;
use crate::audio::Channel;
use crate::audio::clipping::Clipping;
use crate::text::count;
use crate::{Error, Result};

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 16;
/// Bytes that the header may reread.
const FIRST_BYTES: usize = 64;
/// The most bytes before the samples.
const MAX_HEADER: u64 = 256 << 20;

/// An open pipe.
pub(crate) struct Pipe<R> {
    source: R,
    header: Header,
    /// Bytes that have arrived and are not part of a whole block yet.
    bytes: Vec<u8>,
    /// Bytes of samples that were read.
    n_read: u64,
    samples: Vec<f32>,
    clipping: Clipping,
}

impl<R: Read> Pipe<R> {
    /// Reads the header.
    pub(crate) fn open(source: R) -> Result<Self> {
        let start = Start::new(source)?;
        let header = Header::read(&start)?;
        let Opened { source, bytes, at } = start.opened.into_inner();
        let skip = header.data_at.checked_sub(at).and_then(|skip| usize::try_from(skip).ok());
        let bytes = skip.and_then(|skip| bytes.get(skip..)).unwrap_or_default().to_vec();
        Ok(Self { source, header, bytes, n_read: 0, samples: Vec::new(), clipping: Clipping::default() })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns what was found so far.
    pub(in crate::audio) fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// Reads `channel` into `to` and returns the number of samples: at least one, or 0 at the end.
    pub(crate) fn read_mono(&mut self, channel: Channel, to: &mut [f32]) -> Result<usize> {
        let (block_len, n_channels) = (self.header.block_len(), self.header.n_channels);
        let most = BLOCK_BYTES.max(block_len).min(to.len().saturating_mul(block_len));
        while self.bytes.len() < block_len {
            let left = self.header.data_len.saturating_sub(self.n_read + self.bytes.len() as u64);
            let wanted = left.min((most - self.bytes.len().min(most)) as u64) as usize;
            let there = self.bytes.len();
            self.bytes.resize(there + wanted, 0);
            let n = fill(&mut self.source, &mut self.bytes[there..])?;
            self.bytes.truncate(there + n);
            if n == 0 {
                return self.end();
            }
        }
        let left = self.header.data_len - self.n_read;
        let n_blocks = (self.bytes.len().min(most) as u64).min(left) as usize / block_len;
        if n_blocks == 0 {
            return self.end();
        }
        self.samples.resize(n_blocks * n_channels, 0.0);
        sample::to_f32(self.header.coding, &self.bytes, &mut self.samples);
        self.clipping.add(channel, self.n_read / block_len as u64, &self.samples, n_channels);
        to.iter_mut().zip(channel.pick(&self.samples, n_channels)).for_each(|(to, sample)| *to = sample);
        self.bytes.drain(..n_blocks * block_len);
        self.n_read += (n_blocks * block_len) as u64;
        Ok(n_blocks)
    }

    fn end(&mut self) -> Result<usize> {
        let rest = std::mem::take(&mut self.bytes).len() as u64;
        match self.header.data_len {
            OPEN_END if rest > 0 => {
                self.header.note = Some(format!("left out {} after the last whole sample", count(rest, "byte")));
            }
            declared if declared != OPEN_END && self.n_read < declared => {
                return Err(too_short(declared, self.n_read + rest));
            }
            _ => {}
        }
        Ok(0)
    }
}

/// Reads what is there, and waits for the first byte; returns 0 only at the end.
fn fill(source: &mut impl Read, to: &mut [u8]) -> Result<usize> {
    loop {
        match source.read(to) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map_err(|error| Error::io("reading it", error)),
        }
    }
}

/// The bytes before the samples, which are read forwards only.
struct Start<R> {
    opened: RefCell<Opened<R>>,
    /// The number of bytes if the pipe ends within the first few.
    len: Option<u64>,
}

struct Opened<R> {
    source: R,
    /// Bytes from `at` on that have been read.
    bytes: Vec<u8>,
    at: u64,
}

impl<R: Read> Start<R> {
    fn new(source: R) -> Result<Self> {
        let mut opened = Opened { source, bytes: Vec::new(), at: 0 };
        opened.read_to(FIRST_BYTES)?;
        let len = (opened.bytes.len() < FIRST_BYTES).then_some(opened.bytes.len() as u64);
        Ok(Self { opened: RefCell::new(opened), len })
    }
}

impl<R: Read> Opened<R> {
    /// Reads until `n` bytes are there, or all.
    fn read_to(&mut self, n: usize) -> Result<()> {
        while self.bytes.len() < n {
            let there = self.bytes.len();
            self.bytes.resize(n, 0);
            let read = fill(&mut self.source, &mut self.bytes[there..]);
            self.bytes.truncate(there + read.as_ref().copied().unwrap_or(0));
            if read? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Drops the bytes before `at`.
    fn skip_to(&mut self, at: u64) -> Result<()> {
        while self.at < at {
            if self.bytes.is_empty() {
                self.read_to((at - self.at).min(BLOCK_BYTES as u64) as usize)?;
            }
            let n = (self.bytes.len() as u64).min(at - self.at) as usize;
            if n == 0 {
                return Err(Error::truncated(format!("the pipe ends at byte {}, before its samples", self.at)));
            }
            self.bytes.drain(..n);
            self.at += n as u64;
        }
        Ok(())
    }
}

impl<R: Read> Bytes for Start<R> {
    fn len(&self) -> u64 {
        self.len.unwrap_or(MAX_HEADER)
    }

    fn is_open(&self) -> bool {
        self.len.is_none()
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let mut opened = self.opened.borrow_mut();
        if at + to.len() as u64 > FIRST_BYTES as u64 {
            opened.skip_to(at)?;
        }
        let from = at.checked_sub(opened.at).and_then(|from| usize::try_from(from).ok());
        let from = from.ok_or_else(|| Error::corrupt(format!("the header goes back to byte {at}")))?;
        opened.read_to(from + to.len())?;
        let found = opened.bytes.get(from..from + to.len());
        let found = found.ok_or_else(|| {
            let end = opened.at + opened.bytes.len() as u64;
            Error::truncated(format!("{} bytes at byte {at} of {end}", to.len()))
        })?;
        to.copy_from_slice(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
