//! Reads a file front to back with lookahead.

use std::io::{ErrorKind, Read};

use crate::{Error, Result};

/// Bytes that are read at once.
pub(super) const BLOCK: usize = 1 << 16;

pub(super) struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    at: usize,
    /// Bytes of the file before `bytes`.
    passed: u64,
    is_end: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, bytes: Vec::new(), at: 0, passed: 0, is_end: false }
    }

    /// Returns the file position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.passed + self.at as u64
    }

    /// Returns the next bytes: at least `n`, or all that remain.
    pub(super) fn look(&mut self, n: usize) -> Result<&[u8]> {
        if self.bytes.len() - self.at < n && !self.is_end {
            self.bytes.drain(..self.at);
            self.passed += self.at as u64;
            self.at = 0;
            let wanted = n.max(BLOCK);
            while self.bytes.len() < wanted {
                let there = self.bytes.len();
                self.bytes.resize(wanted, 0);
                let read = self.source.read(&mut self.bytes[there..]);
                self.bytes.truncate(there + read.as_ref().copied().unwrap_or(0));
                match read {
                    Ok(0) => {
                        self.is_end = true;
                        break;
                    }
                    Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Error::io("reading it", error)),
                    _ => {}
                }
            }
        }
        Ok(&self.bytes[self.at..])
    }

    /// Advances by `n` bytes that [`Window::look`] returned.
    pub(super) fn pass(&mut self, n: usize) {
        self.at = (self.at + n).min(self.bytes.len());
    }

    /// Skips `n` bytes; false if there are fewer.
    pub(super) fn skip(&mut self, mut n: u64) -> Result<bool> {
        while n > 0 {
            let there = self.look(n.min(BLOCK as u64) as usize)?.len() as u64;
            if there == 0 {
                return Ok(false);
            }
            self.pass(there.min(n) as usize);
            n -= there.min(n);
        }
        Ok(true)
    }

    /// Skips ID3v2 tags.
    pub(super) fn pass_id3(&mut self) -> Result<()> {
        while let [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] = *self.look(10)? {
            let len = [a, b, c, d].iter().fold(0, |len, &byte| len << 7 | u64::from(byte & 0x7f));
            // A footer repeats the header.
            let footer = if flags & 0x10 == 0 { 0 } else { 10 };
            if !self.skip(10 + len + footer)? {
                break;
            }
        }
        Ok(())
    }
}
