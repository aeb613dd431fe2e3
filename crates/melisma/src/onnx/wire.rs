//! The wire format of protocol buffers: numbered fields, each a varint, 4 or 8 bytes, or a length
//! followed by that many bytes.
//!
//! # Why our own protobuf code?
//!
//! Eleven ONNX messages take about 800 lines, the build needs no schema compiler, and each
//! length is checked where it is read. Every engine gets a model that this code has read, checked
//! and written again.

use crate::{Error, Result};

/// One encoded field.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub number: u32,
    pub field: Field<'a>,
    /// The whole field including its tag, for passing it through.
    pub raw: &'a [u8],
    /// File offset of its content.
    pub at: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The fields of one message.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    used: usize,
    /// File offset of the message.
    base: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize) -> Self {
        Self { bytes, used: 0, base }
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry<'a>>> {
        if self.used == self.bytes.len() {
            return Ok(None);
        }
        let begin = self.used;
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0);
        let number =
            number.ok_or_else(|| Error::corrupt(format!("byte {}: no field has tag {tag}", self.base + begin)))?;
        let mut at = self.base + self.used;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                at = self.base + self.used;
                Field::Bytes(self.take(len)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Error::corrupt(format!("byte {}: unknown wire type {other}", self.base + begin))),
        };
        Ok(Some(Entry { number, field, raw: &self.bytes[begin..self.used], at }))
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::corrupt(format!("byte {}: a number of more than 64 bits", self.base + self.used)))
    }

    /// Returns the number of bytes read.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == self.bytes.len()
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let left = &self.bytes[self.used..];
        let bytes = left.get(..len).ok_or_else(|| {
            let place = self.base + self.used;
            Error::truncated(format!("byte {place}: {len} bytes should follow, {} do", left.len()))
        })?;
        self.used += len;
        Ok(bytes)
    }
}

impl<'a> Entry<'a> {
    pub(super) fn int(&self) -> Result<i64> {
        match self.field {
            Field::Varint(value) => Ok(value as i64),
            _ => Err(self.wrong("a number")),
        }
    }

    pub(super) fn float(&self) -> Result<f32> {
        match self.field {
            Field::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(self.wrong("a float")),
        }
    }

    pub(super) fn bytes(&self) -> Result<&'a [u8]> {
        match self.field {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong("bytes")),
        }
    }

    pub(super) fn text(&self) -> Result<String> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned).map_err(|_| Error::corrupt(format!("byte {}: a text that is not UTF-8", self.at)))
    }

    pub(super) fn message(&self) -> Result<Reader<'a>> {
        Ok(Reader::new(self.bytes()?, self.at))
    }

    /// Reads one or many integers.
    pub(super) fn ints(&self, to: &mut Vec<i64>) -> Result<()> {
        match self.field {
            Field::Varint(value) => to.push(value as i64),
            _ => {
                let mut packed = self.message()?;
                while !packed.is_empty() {
                    to.push(packed.varint()? as i64);
                }
            }
        }
        Ok(())
    }

    /// Reads one or many values of four or eight bytes, as bytes.
    pub(super) fn fixed(&self, size: usize, to: &mut Vec<u8>) -> Result<()> {
        match self.field {
            Field::Fixed32(bits) if size == 4 => to.extend(bits.to_le_bytes()),
            Field::Fixed64(bits) if size == 8 => to.extend(bits.to_le_bytes()),
            Field::Bytes(bytes) if bytes.len().is_multiple_of(size) => to.extend(bytes),
            _ => return Err(self.wrong("a list of floats")),
        }
        Ok(())
    }

    fn wrong(&self, expected: &str) -> Error {
        Error::corrupt(format!("byte {}: field {} is not {expected}", self.at, self.number))
    }
}

/// A message being written.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn int(&mut self, number: u32, value: i64) {
        self.varint(u64::from(number) << 3);
        self.varint(value as u64);
    }

    pub(super) fn float(&mut self, number: u32, value: f32) {
        self.varint(u64::from(number) << 3 | 5);
        self.0.extend(value.to_bits().to_le_bytes());
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Writes a text; an empty one is omitted, because it is the default.
    pub(super) fn text(&mut self, number: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(number, text.as_bytes());
        }
    }

    pub(super) fn message(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        self.varint(u64::from(number) << 3 | 2);
        let start = self.0.len();
        write(self);
        // Inserting the length shifts the content by a few bytes, which avoids a second buffer.
        let mut len = Self::default();
        len.varint((self.0.len() - start) as u64);
        self.0.splice(start..start, len.0);
    }

    #[cfg(test)]
    pub(super) fn ints(&mut self, number: u32, values: &[i64]) {
        self.message(number, |packed| values.iter().for_each(|&value| packed.varint(value as u64)));
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
