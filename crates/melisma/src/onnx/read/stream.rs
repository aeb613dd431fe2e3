//! Streams the upper levels of a model from a file. Small fields are read whole. Messages with
//! large tensors are read by their own fields, so that a tensor's bytes go straight from the file
//! into the tensor.

use std::ops::Range;

use super::super::wire::{Entry, Reader};
use crate::pack::ReadAt;
use crate::{Error, ErrorKind, Result};

/// Maximum bytes of a tag and a length.
const HEAD: usize = 20;
const WINDOW: usize = 64 << 10;

/// The fields of one message.
pub(super) struct Stream<'f> {
    file: &'f dyn ReadAt,
    at: u64,
    end: u64,
    window: Vec<u8>,
    start: u64,
}

/// A field.
pub(super) enum Item {
    /// Its bytes, including the tag.
    FieldBytes(FieldBytes),
    /// The range of its content in the file.
    Content(Range<u64>),
}

pub(super) struct FieldBytes {
    raw: Vec<u8>,
    at: u64,
}

impl FieldBytes {
    pub fn entry(&self) -> Result<Entry<'_>> {
        let entry = Reader::new(&self.raw, self.at as usize).next()?;
        entry.ok_or_else(|| Error::corrupt(format!("byte {}: the field is empty", self.at)))
    }
}

impl<'f> Stream<'f> {
    pub fn new(file: &'f dyn ReadAt) -> Result<Self> {
        let end = file.size()?;
        Ok(Self { file, at: 0, end, window: Vec::new(), start: 0 })
    }

    /// Returns the fields of a nested message.
    pub fn within(&self, content: Range<u64>) -> Self {
        Self { file: self.file, at: content.start, end: content.end, window: Vec::new(), start: 0 }
    }

    /// Returns the file offset of the message.
    pub fn place(&self) -> usize {
        self.at as usize
    }

    /// Reads the next field; for the field `streamed`, only the range of its content.
    pub fn next(&mut self, streamed: u32) -> Result<Option<Item>> {
        if self.at == self.end {
            return Ok(None);
        }
        let begin = self.at;
        let head = self.head()?;
        let mut reader = Reader::new(&head, begin as usize);
        let tag = reader.varint()?;
        if tag & 7 != 2 {
            let raw = Reader::new(&head, begin as usize).next()?.map_or_else(Vec::new, |entry| entry.raw.to_vec());
            self.at += raw.len() as u64;
            return Ok(Some(Item::FieldBytes(FieldBytes { raw, at: begin })));
        }
        let len = reader.varint()?;
        let start = begin + reader.used() as u64;
        let left = self.end - start;
        if len > left {
            let message = format!("byte {start}: {len} bytes should follow, {left} do");
            return Err(Error::truncated(message));
        }
        self.at = start + len;
        if tag >> 3 == u64::from(streamed) {
            return Ok(Some(Item::Content(start..self.at)));
        }
        Ok(Some(Item::FieldBytes(FieldBytes { raw: self.bytes(begin..self.at)?, at: begin })))
    }

    /// Reads the bytes of a field.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|error| {
            Error::new(ErrorKind::Memory, format!("cannot allocate {len} bytes for a field")).with_source(error)
        })?;
        if range.start >= self.start && range.end <= self.start + self.window.len() as u64 {
            let at = (range.start - self.start) as usize;
            bytes.extend(&self.window[at..at + len]);
            return Ok(bytes);
        }
        bytes.resize(len, 0);
        self.file.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// Peeks at the next bytes.
    fn head(&mut self) -> Result<Vec<u8>> {
        let end = self.end.min(self.at + HEAD as u64);
        if self.at < self.start || end > self.start + self.window.len() as u64 {
            let len = (self.end - self.at).min(WINDOW as u64);
            self.window.resize(len as usize, 0);
            self.file.read_at(self.at, &mut self.window)?;
            self.start = self.at;
        }
        self.bytes(self.at..end)
    }
}
