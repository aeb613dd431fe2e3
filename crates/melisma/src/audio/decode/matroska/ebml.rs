//! EBML (RFC 8794): elements of an identifier, a length and a body.

use std::io::{ErrorKind, Read};

use crate::{Error, Result};

/// Bytes that are skipped at once.
const BLOCK: usize = 1 << 14;
/// The checksum at the start of an element's body.
pub(super) const CRC: u32 = 0xbf;

/// The head of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub id: u32,
    /// Where its head begins.
    pub at: u64,
    /// Where its body ends; `None` where a live writer did not know.
    pub end: Option<u64>,
}

/// A file, front to back.
pub(super) struct Elements<R> {
    source: R,
    /// The position of the next byte.
    pub at: u64,
    /// The checksum of what is read, the one that it must be, and where.
    sum: Option<(crc32fast::Hasher, u32, u64)>,
}

impl<R: Read> Elements<R> {
    /// Creates a reader of `source`, which stands at byte `at`.
    pub(super) fn new(source: R, at: u64) -> Self {
        Self { source, at, sum: None }
    }

    pub(super) fn into_source(self) -> R {
        self.source
    }

    /// Reads the head of the next element; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Element>> {
        let at = self.at;
        let mut first = [0];
        if self.read_some(&mut first)? == 0 {
            return Ok(None);
        }
        let [first] = first;
        let id = (first >= 0x10).then(|| first.leading_zeros() as usize);
        let Some(n_more) = id else {
            return Err(Error::corrupt(format!("no Matroska element begins at byte {at}")));
        };
        let mut more = [0; 3];
        self.read(&mut more[..n_more])?;
        let id = more[..n_more].iter().fold(u32::from(first), |id, &byte| id << 8 | u32::from(byte));
        let len = self.number()?;
        let end = match len {
            None => None,
            Some(len) => Some(self.at.checked_add(len).ok_or_else(|| self.no_fit(at))?),
        };
        Ok(Some(Element { id, at, end }))
    }

    /// Reads a number whose first bits tell its length; `None` if all its bits are set.
    pub(super) fn number(&mut self) -> Result<Option<u64>> {
        let at = self.at;
        let mut bytes = [0; 8];
        self.read(&mut bytes[..1])?;
        let n_more = bytes[0].leading_zeros() as usize;
        if n_more > 7 {
            return Err(Error::corrupt(format!("no Matroska length begins at byte {at}")));
        }
        self.read(&mut bytes[1..=n_more])?;
        let raw = bytes[..=n_more].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let mask = (1 << (7 * (n_more + 1))) - 1;
        Ok((raw & mask != mask).then_some(raw & mask))
    }

    /// Reads the rest of a body that ends at `end`, of at most `limit` bytes.
    pub(super) fn rest(&mut self, end: u64, limit: usize) -> Result<Vec<u8>> {
        let len = end.saturating_sub(self.at);
        if len > limit as u64 {
            let message = format!("a Matroska element of {len} bytes at byte {}; at most {limit} are read", self.at);
            return Err(Error::unsupported(message));
        }
        // Memory is taken for what arrives only.
        let mut body = Vec::new();
        while (body.len() as u64) < len {
            let there = body.len();
            body.resize((len as usize).min(there + BLOCK), 0);
            self.read(&mut body[there..])?;
        }
        Ok(body)
    }

    /// Skips everything before `end`.
    pub(super) fn skip_to(&mut self, end: u64) -> Result<()> {
        let mut block = [0; BLOCK];
        while self.at < end {
            let n = (end - self.at).min(BLOCK as u64) as usize;
            self.read(&mut block[..n])?;
        }
        Ok(())
    }

    /// Checks what is read from here to `end` against the checksum `sum`.
    pub(super) fn expect(&mut self, sum: u32, end: u64) {
        self.sum = Some((crc32fast::Hasher::new(), sum, end));
    }

    /// Returns the error for an element at byte `at` that is longer than what holds it.
    pub(super) fn no_fit(&self, at: u64) -> Error {
        Error::corrupt(format!("the Matroska element at byte {at} is longer than the one around it"))
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        let from = self.at;
        let mut n = 0;
        while n < to.len() {
            match self.read_some(&mut to[n..])? {
                0 => {
                    let message = format!("the file ends within the Matroska element at byte {from}");
                    return Err(Error::truncated(message));
                }
                more => n += more,
            }
        }
        Ok(())
    }

    fn read_some(&mut self, to: &mut [u8]) -> Result<usize> {
        let n = loop {
            match self.source.read(to) {
                Ok(n) => break n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("reading it", error)),
            }
        };
        self.at += n as u64;
        if let Some((sum, expected, end)) = &mut self.sum {
            sum.update(&to[..n]);
            if self.at >= *end {
                let (is_right, end) = (self.at == *end && sum.clone().finalize() == *expected, *end);
                self.sum = None;
                if !is_right {
                    return Err(Error::corrupt(format!("the Matroska element before byte {end} fails its checksum")));
                }
            }
        }
        Ok(n)
    }
}

/// Returns the identifiers and bodies of the elements in `body`, after checking their checksum.
pub(super) fn children(body: &[u8]) -> Result<Vec<(u32, &[u8])>> {
    let mut elements = Elements::new(body, 0);
    let mut children = Vec::new();
    while let Some(element) = elements.next()? {
        let (start, end) = (elements.at as usize, element.end.and_then(|end| usize::try_from(end).ok()));
        let inner = end.and_then(|end| body.get(start..end)).ok_or_else(|| elements.no_fit(element.at))?;
        if element.id == CRC
            && children.is_empty()
            && inner != crc32fast::hash(&body[start + inner.len()..]).to_le_bytes()
        {
            return Err(Error::corrupt("a Matroska header fails its checksum"));
        }
        elements.skip_to((start + inner.len()) as u64)?;
        children.push((element.id, inner));
    }
    Ok(children)
}

/// Reads an unsigned number; `None` if it is too long.
pub(super) fn unsigned(body: &[u8]) -> Option<u64> {
    (body.len() <= 8).then(|| body.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// Reads a signed number; `None` if it is too long.
pub(super) fn signed(body: &[u8]) -> Option<i64> {
    let unused = 64 - 8 * body.len().clamp(1, 8) as u32;
    unsigned(body).map(|number| (number << unused) as i64 >> unused)
}

/// Reads a number with a fraction; `None` if it has another length.
pub(super) fn float(body: &[u8]) -> Option<f64> {
    match body.len() {
        0 => Some(0.0),
        4 => body.first_chunk().map(|bytes| f32::from_be_bytes(*bytes).into()),
        8 => body.first_chunk().map(|bytes| f64::from_be_bytes(*bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_lengths_of_any_width() {
        let bytes = [0x42, 0x86, 0x81, 1, 0x1a, 0x45, 0xdf, 0xa3, 0x40, 2, 8, 9, 0xa3, 0xff];
        let mut elements = Elements::new(&bytes[..], 0);
        assert_eq!(elements.next().unwrap(), Some(Element { id: 0x4286, at: 0, end: Some(4) }));
        assert_eq!(elements.rest(4, 10).unwrap(), [1]);
        assert_eq!(elements.next().unwrap(), Some(Element { id: 0x1a45_dfa3, at: 4, end: Some(12) }));
        elements.skip_to(12).unwrap();
        assert_eq!(elements.next().unwrap(), Some(Element { id: 0xa3, at: 12, end: None }));
        assert_eq!(elements.next().unwrap(), None);
        for (bytes, message) in [
            (&[0x08, 0x80][..], "no Matroska element begins at byte 0"),
            (&[0xa3, 0x00], "no Matroska length begins at byte 1"),
            (&[0x42], "the file ends within the Matroska element at byte 1"),
        ] {
            assert_eq!(Elements::new(bytes, 0).next().unwrap_err().to_string(), message);
        }
        let error = Elements::new(&bytes[..], 0).rest(99, 10).unwrap_err();
        assert_eq!(error.to_string(), "a Matroska element of 99 bytes at byte 0; at most 10 are read");
    }

    #[test]
    fn checksums_are_checked() {
        let sum = crc32fast::hash(&[0x81, 0x81, 5]).to_le_bytes();
        let good = [&[0xbf, 0x84][..], &sum, &[0x81, 0x81, 5]].concat();
        assert_eq!(children(&good).unwrap()[1], (0x81, &[5][..]));
        let mut bad = good;
        bad[8] = 6;
        assert_eq!(children(&bad).unwrap_err().to_string(), "a Matroska header fails its checksum");
        let mut elements = Elements::new(&bad[6..], 0);
        elements.expect(u32::from_le_bytes(sum), 3);
        let error = elements.skip_to(3).unwrap_err();
        assert_eq!(error.to_string(), "the Matroska element before byte 3 fails its checksum");
    }

    #[test]
    fn numbers_are_big_endian() {
        assert_eq!((unsigned(&[1, 0]), unsigned(&[]), unsigned(&[0; 9])), (Some(256), Some(0), None));
        assert_eq!((signed(&[0xff]), signed(&[0, 0xff]), signed(&[])), (Some(-1), Some(255), Some(0)));
        assert_eq!((float(&48_000f32.to_be_bytes()), float(&[1])), (Some(48_000.0), None));
    }
}
