//! Checks FLAC: frames follow each other without a gap, each with a CRC-8 of its header, a CRC-16
//! of the whole frame, and its number (RFC 9639).
//!
//! A frame does not state its length. It ends where the CRC-16 matches and another header follows.

use std::io::Read;

use super::is_tail;
use super::window::{BLOCK, Window};
use crate::audio::flac::{crc8, crc16_next};
use crate::{Error, Result};

/// The longest frame header.
const MAX_HEADER: usize = 16;
const STREAMINFO_LEN: usize = 34;

struct Header {
    len: usize,
    n_samples: u64,
    /// The frame number for fixed block sizes, the number of the first sample for variable ones.
    number: u64,
    is_variable: bool,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[0xff, strategy @ (0xf8 | 0xf9), sizes, layout, ..] = bytes else { return None };
        if layout & 1 != 0 || sizes & 0x0f == 0x0f {
            return None;
        }
        let (number, mut len) = coded(bytes.get(4..)?)?;
        len += 4;
        let mut field = |n: usize| -> Option<u64> {
            let field = bytes.get(len..len + n)?;
            len += n;
            Some(field.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
        };
        let n_samples = match sizes >> 4 {
            0 => return None,
            1 => 192,
            code @ 2..=5 => 144 << code,
            6 => field(1)? + 1,
            7 => field(2)? + 1,
            code => 1 << code,
        };
        match sizes & 0x0f {
            12 => field(1)?,
            13 | 14 => field(2)?,
            _ => 0,
        };
        let is_right = *bytes.get(len)? == crc8(&bytes[..len]);
        is_right.then_some(Self { len: len + 1, n_samples, number, is_variable: strategy & 1 != 0 })
    }

    fn next_number(&self) -> u64 {
        if self.is_variable { self.number + self.n_samples } else { self.number + 1 }
    }
}

/// Decodes a UTF-8-style number; returns it with its length in bytes.
fn coded(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = match first.leading_ones() as usize {
        0 => return Some((first.into(), 1)),
        len @ 2..=7 => len,
        _ => return None,
    };
    let mut value = u64::from(first) & (0x7f >> len);
    for &byte in bytes.get(1..len)? {
        if byte >> 6 != 2 {
            return None;
        }
        value = value << 6 | u64::from(byte & 0x3f);
    }
    Some((value, len))
}

pub(super) fn count_samples(window: &mut Window<impl Read>) -> Result<Option<u64>> {
    let declared = metadata(window)?;
    let (mut sample, mut expected) = (0, None);
    loop {
        let bytes = window.look(MAX_HEADER)?;
        if bytes.is_empty() {
            break;
        }
        let Some(header) = Header::read(bytes) else {
            if sample > 0 && is_tail(window)? {
                break;
            }
            return Err(Error::corrupt(format!("the FLAC frame at sample {sample} does not begin as it should")));
        };
        let number = (header.number, header.is_variable);
        if expected.map_or(number.0 != 0, |expected| number != expected) {
            return Err(Error::corrupt(format!("a FLAC frame is missing at sample {sample}")));
        }
        if !pass_frame(window, &header)? {
            return Err(Error::corrupt(format!(
                "the FLAC frame at sample {sample}, or the one after it, fails its checksum"
            )));
        }
        expected = Some((header.next_number(), header.is_variable));
        sample += header.n_samples;
    }
    match declared {
        0 => Ok(None),
        declared if declared == sample => Ok(Some(declared)),
        declared if declared > sample => {
            Err(Error::truncated(format!("{declared} samples are declared, the file ends at sample {sample}")))
        }
        declared => Err(Error::corrupt(format!("{declared} samples are declared, {sample} are there"))),
    }
}

/// Skips to the end of the frame at the window's position; false if there is no end.
fn pass_frame(window: &mut Window<impl Read>, header: &Header) -> Result<bool> {
    // At least one byte of content, and the CRC-16.
    let least = header.len + 3;
    let (mut crc, mut len) = (0, 0);
    loop {
        let bytes = window.look(BLOCK)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        // Leaves enough bytes to inspect the next header.
        let n = if bytes.len() < BLOCK { bytes.len() } else { bytes.len() - MAX_HEADER };
        for (i, &byte) in bytes[..n].iter().enumerate() {
            crc = crc16_next(crc, byte);
            if crc == 0 && len + i + 1 >= least && can_follow(&bytes[i + 1..], header) {
                window.pass(i + 1);
                return Ok(true);
            }
        }
        window.pass(n);
        len += n;
    }
}

fn can_follow(bytes: &[u8], header: &Header) -> bool {
    // Accepts any frame number. Otherwise the frame after a gap would count as part of this one,
    // since the CRC over several frames is also 0.
    let is_frame = |next: Header| next.is_variable == header.is_variable;
    let is_tag = || [&b"TAG"[..], b"APETAGEX", b"LYRICSBEGIN"].iter().any(|mark| bytes.starts_with(mark));
    let is_padding = || bytes.iter().take(MAX_HEADER).all(|&byte| byte == 0);
    bytes.is_empty() || Header::read(bytes).is_some_and(is_frame) || is_tag() || is_padding()
}

/// Skips the metadata; returns the number of samples that STREAMINFO declares, 0 if unknown.
fn metadata(window: &mut Window<impl Read>) -> Result<u64> {
    if !window.look(4)?.starts_with(b"fLaC") {
        return Err(Error::corrupt(format!("no FLAC file begins at byte {}", window.position())));
    }
    window.pass(4);
    let mut declared = 0;
    loop {
        let &[kind, a, b, c, ..] = window.look(4 + STREAMINFO_LEN)? else {
            return Err(Error::truncated("the file ends within its metadata"));
        };
        if let (0, Some(info)) = (kind & 0x7f, window.look(4 + STREAMINFO_LEN)?.get(4..4 + STREAMINFO_LEN)) {
            declared = u64::from(info[13] & 0x0f) << 32
                | u64::from(u32::from_be_bytes([info[14], info[15], info[16], info[17]]));
        }
        if !window.skip(4 + u64::from(u32::from_be_bytes([0, a, b, c])))? {
            return Err(Error::truncated("the file ends within its metadata"));
        }
        if kind & 0x80 != 0 {
            return Ok(declared);
        }
    }
}
