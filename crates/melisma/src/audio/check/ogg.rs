//! Checks Ogg: pages follow each other without a gap, each with a CRC-32 and consecutive numbers
//! within its stream, and the last page of a stream is marked (RFC 3533).

use std::collections::BTreeMap;
use std::io::Read;

use super::is_tail;
use super::window::Window;
use crate::audio::decode::pre_skip_in_ogg;
use crate::{Error, Result};

const HEAD: usize = 27;
/// The longest page: 255 segments of 255 bytes.
const MAX_PAGE: usize = HEAD + 255 + 255 * 255;
const FIRST: u8 = 2;
const LAST: u8 = 4;
/// The most streams that may be open at once.
const MAX_STREAMS: usize = 256;

#[derive(Debug, Default)]
struct Streams {
    /// By their serial numbers.
    open: BTreeMap<u32, Stream>,
    /// Samples of the streams that have ended.
    n_samples: u64,
    /// Whether there was never more than one stream at a time, so that all samples belong to one
    /// recording.
    is_single: bool,
}

#[derive(Debug)]
struct Stream {
    /// The number of its next page.
    next_page: u32,
    /// The clock of its last page.
    end: u64,
    /// What the clock counts before the audio.
    pre_skip: u64,
}

impl Stream {
    fn n_samples(&self) -> u64 {
        self.end.saturating_sub(self.pre_skip)
    }
}

pub(super) fn count_samples(window: &mut Window<impl Read>) -> Result<Option<u64>> {
    let mut streams = Streams { is_single: true, ..Streams::default() };
    let mut n_pages = 0u64;
    loop {
        let bytes = window.look(MAX_PAGE)?;
        if bytes.is_empty() {
            break;
        }
        let page = page_len(bytes).and_then(|len| bytes.get(..len));
        let Some(page) = page else {
            let is_start = bytes.starts_with(b"OggS");
            if n_pages > 0 && streams.open.is_empty() && is_tail(window)? {
                break;
            }
            let (at, sample) = (window.position(), streams.sample());
            return Err(match is_start {
                true => {
                    Error::truncated(format!("the file ends within the Ogg page at byte {at}, after sample {sample}"))
                }
                false => Error::corrupt(format!("no Ogg page begins at byte {at}, after sample {sample}")),
            });
        };
        let len = page.len();
        if checksum(page) != u32::from_le_bytes([page[22], page[23], page[24], page[25]]) {
            let (at, sample) = (window.position(), streams.sample());
            return Err(Error::corrupt(format!(
                "the Ogg page at byte {at}, after sample {sample}, fails its checksum"
            )));
        }
        streams.add(page)?;
        n_pages += 1;
        window.pass(len);
    }
    if !streams.open.is_empty() {
        let sample = streams.sample();
        return Err(Error::truncated(format!("the Ogg stream has no last page; the file ends after sample {sample}")));
    }
    Ok(streams.is_single.then_some(streams.n_samples))
}

impl Streams {
    /// Returns the number of samples so far.
    fn sample(&self) -> u64 {
        self.n_samples + self.open.values().map(Stream::n_samples).max().unwrap_or(0)
    }

    fn add(&mut self, page: &[u8]) -> Result<()> {
        let field = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let (flags, serial, number) = (page[5], field(14), field(18));
        let granule = i64::from(field(6)) | i64::from(field(10)) << 32;
        if flags & FIRST != 0 {
            let stream = Stream { next_page: number, end: 0, pre_skip: pre_skip(page)? };
            if self.open.insert(serial, stream).is_some() || self.open.len() > MAX_STREAMS {
                return Err(Error::corrupt(format!(
                    "an Ogg stream begins within another, after sample {}",
                    self.sample()
                )));
            }
            self.is_single &= self.open.len() == 1;
        }
        let sample = self.sample();
        let Some(stream) = self.open.get_mut(&serial) else {
            return Err(Error::corrupt(format!("an Ogg page of no stream, after sample {sample}")));
        };
        let (expected, end) = (stream.next_page, stream.end);
        if expected != number {
            return Err(Error::corrupt(format!("Ogg pages {expected} to {number} are missing, after sample {sample}")));
        }
        stream.next_page = number.wrapping_add(1);
        // The clock of a page is valid only if a packet ends on it.
        if ends_packet(page) {
            match u64::try_from(granule) {
                Ok(granule) if granule >= end => stream.end = granule,
                _ => {
                    return Err(Error::corrupt(format!(
                        "the clock of an Ogg page goes back to {granule}, after sample {end}"
                    )));
                }
            }
        }
        if flags & LAST != 0 {
            self.n_samples = self.n_samples.saturating_add(stream.n_samples());
            self.open.remove(&serial);
        }
        Ok(())
    }
}

/// Returns what the clock of an Opus stream counts before its audio, by its first page.
fn pre_skip(page: &[u8]) -> Result<u64> {
    let body = page.get(HEAD + usize::from(page[26])..).unwrap_or_default();
    if body.starts_with(b"OpusHead") { pre_skip_in_ogg(body) } else { Ok(0) }
}

fn ends_packet(page: &[u8]) -> bool {
    let segments = &page[HEAD..HEAD + usize::from(page[26])];
    page.len() > HEAD + segments.len() && segments.iter().any(|&len| len < u8::MAX)
}

fn page_len(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"OggS\0") {
        return None;
    }
    let n = usize::from(*bytes.get(26)?);
    Some(HEAD + n + bytes.get(HEAD..HEAD + n)?.iter().map(|&len| usize::from(len)).sum::<usize>())
}

pub(super) fn checksum(page: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: u8| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)];
    // The checksum field itself counts as zeros.
    let zeroed = |(at, &byte): (usize, &u8)| if (22..26).contains(&at) { 0 } else { byte };
    page.iter().enumerate().map(zeroed).fold(0, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}
