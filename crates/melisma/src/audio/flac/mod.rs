//! Writes FLAC files (RFC 9639). The decoder for all compressed formats reads them.
//!
//! Blocks have 4096 samples. Each channel is coded as the cheapest of a constant, fixed predictors,
//! linear prediction and verbatim samples. Two channels are coded as the cheapest of left, right,
//! mid and side. The choice depends only on sums and products of floats, so a clip gives the same
//! bytes on every machine.
//!
//! # Why our own writer?
//!
//! The alternative adds two dozen crates to save about 500 lines. Tests decode our output with
//! another project's decoder and compare it bit for bit.

mod bits;
mod predict;
mod rice;
mod subframe;

use std::borrow::Cow;
use std::io::{Cursor, Seek, SeekFrom, Write};

use md5::{Digest, Md5};

use bits::Bits;
pub(super) use bits::crc8;
#[cfg(feature = "codecs")]
pub(super) use bits::crc16_next;
use subframe::Subframe;

use super::{Clip, Layout};
use crate::{Error, Result};

/// Samples per block.
const BLOCK: usize = 4096;
/// Bytes of metadata: `fLaC`, a header of 4 bytes, STREAMINFO.
const HEAD: usize = 42;
/// The hash of a stream whose end is not known.
const UNKNOWN_HASH: [u8; 16] = [0; 16];

/// Bits per sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// 16 bits.
    S16,
    /// 24 bits.
    S24,
}

impl Depth {
    fn bits(self) -> u32 {
        match self {
            Self::S16 => 16,
            Self::S24 => 24,
        }
    }

    /// Rounds to nearest, ties to even, and clips; NaN becomes silence.
    fn integer(self, sample: f32) -> i32 {
        let limit = 1i32 << (self.bits() - 1);
        let scaled = (f64::from(sample) * f64::from(limit)).round_ties_even() as i32;
        scaled.clamp(-limit, limit - 1)
    }
}

/// Writes FLAC incrementally.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    format: Format,
    /// Samples that wait for a full block, by channel.
    waiting: Vec<Vec<i32>>,
    n_frames: u32,
    n_samples: u64,
    /// The smallest and the largest frame, in bytes.
    sizes: [u32; 2],
    hash: Md5,
}

#[derive(Debug, Clone, Copy)]
struct Format {
    sample_rate: u32,
    n_channels: usize,
    depth: Depth,
}

impl<W: Write> Writer<W> {
    /// Creates a stream, which [`Writer::finish`] ends; the header has the samples per channel if they are known.
    ///
    /// # Errors
    /// Those of [`Writer::new`].
    pub fn piped(sink: W, layout: Layout, depth: Depth, n_samples: Option<u64>) -> Result<Self> {
        let mut writer = Self::build(sink, layout, depth)?;
        let head = writer.head(n_samples.unwrap_or(0), UNKNOWN_HASH);
        writer.sink.write_all(&head).map_err(failed)?;
        Ok(writer)
    }

    fn build(sink: W, layout: Layout, depth: Depth) -> Result<Self> {
        let Layout { sample_rate, n_channels } = layout;
        if !(1..=655_350).contains(&sample_rate) || !(1..=8).contains(&n_channels) {
            let message = format!("a FLAC file of {n_channels} channels at {sample_rate} Hz; 1 to 8, 1 to 655350 Hz");
            return Err(Error::invalid(message).with_hint("write a WAV file instead"));
        }
        let format = Format { sample_rate, n_channels, depth };
        let waiting = vec![Vec::with_capacity(BLOCK); n_channels];
        Ok(Self { sink, format, waiting, n_frames: 0, n_samples: 0, sizes: [u32::MAX, 0], hash: Md5::new() })
    }

    /// Appends interleaved samples, in whole frames.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        for frame in samples.chunks_exact(self.format.n_channels) {
            for (channel, &sample) in self.waiting.iter_mut().zip(frame) {
                channel.push(self.format.depth.integer(sample));
            }
            if self.waiting[0].len() == BLOCK {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let n = self.waiting[0].len();
        let n_bytes = self.format.depth.bits() as usize / 8;
        let mut plain = Vec::with_capacity(n * self.waiting.len() * n_bytes);
        for i in 0..n {
            for channel in &self.waiting {
                plain.extend_from_slice(&channel[i].to_le_bytes()[..n_bytes]);
            }
        }
        self.hash.update(&plain);
        let frame = frame(self.format, self.n_frames, &self.waiting);
        self.sink.write_all(&frame).map_err(failed)?;
        self.sizes = [self.sizes[0].min(frame.len() as u32), self.sizes[1].max(frame.len() as u32)];
        self.n_frames += 1;
        self.n_samples += n as u64;
        self.waiting.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Flushes the sink. Samples that wait for a full block stay.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(failed)
    }

    /// Finishes a pipe: the header stays as it is, with an unknown hash.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn finish(mut self) -> Result<W> {
        self.end()?;
        self.flush()?;
        Ok(self.sink)
    }

    fn end(&mut self) -> Result<()> {
        if self.waiting[0].is_empty() { Ok(()) } else { self.end_block() }
    }

    fn head(&self, n_samples: u64, hash: [u8; 16]) -> Vec<u8> {
        let mut bits = Bits::default();
        b"fLaC".iter().for_each(|&byte| bits.put(byte.into(), 8));
        // The last metadata block: STREAMINFO, 34 bytes.
        bits.put(0x80, 8);
        bits.put(34, 24);
        bits.put(BLOCK as u64, 16);
        bits.put(BLOCK as u64, 16);
        let sizes = if self.n_frames == 0 { [0, 0] } else { self.sizes };
        sizes.iter().for_each(|&size| bits.put(size.into(), 24));
        bits.put(self.format.sample_rate.into(), 20);
        bits.put(self.format.n_channels as u64 - 1, 3);
        bits.put(u64::from(self.format.depth.bits()) - 1, 5);
        // 0 means an unknown length; lengths of more than 36 bits are unknown.
        bits.put(if n_samples >> 36 == 0 { n_samples } else { 0 }, 36);
        hash.iter().for_each(|&byte| bits.put(byte.into(), 8));
        bits.bytes()
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Writes a header that [`Writer::seal`] completes.
    ///
    /// # Errors
    /// `InvalidArgument` for a rate outside 1..=655350 Hz or channels outside 1..=8; `Io` if the
    /// sink fails.
    pub fn new(sink: W, sample_rate: u32, n_channels: usize, depth: Depth) -> Result<Self> {
        let mut writer = Self::build(sink, Layout::new(sample_rate, n_channels), depth)?;
        writer.sink.write_all(&[0; HEAD]).map_err(failed)?;
        Ok(writer)
    }

    /// Finishes the file: writes its length and its hash into the header, which starts at position
    /// 0 of the sink.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn seal(mut self) -> Result<W> {
        self.end()?;
        let head = self.head(self.n_samples, self.hash.clone().finalize().into());
        let sink = &mut self.sink;
        sink.seek(SeekFrom::Start(0)).map_err(failed)?;
        sink.write_all(&head).map_err(failed)?;
        sink.seek(SeekFrom::End(0)).map_err(failed)?;
        sink.flush().map_err(failed)?;
        Ok(self.sink)
    }
}

/// Encodes a clip as a FLAC file.
///
/// # Errors
/// Those of [`Writer::new`].
pub fn encode(clip: &Clip, depth: Depth) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), clip.sample_rate, clip.n_channels, depth)?;
    writer.write(&clip.samples)?;
    Ok(writer.seal()?.into_inner())
}

/// Returns the code of a rate in the header of a frame, and the number that follows with its bits. ffmpeg's parser, and
/// what is built on it, loses the last frames of a file whose frames leave the rate to STREAMINFO (code 0).
fn rate_code(sample_rate: u32) -> (u64, u32, u32) {
    const CODES: [u32; 11] = [88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];
    match (CODES.iter().position(|rate| *rate == sample_rate), sample_rate) {
        (Some(index), _) => (index as u64 + 1, 0, 0),
        (None, rate) if rate % 1000 == 0 && rate < 256_000 => (12, rate / 1000, 8),
        (None, rate) if rate < 1 << 16 => (13, rate, 16),
        (None, rate) if rate % 10 == 0 => (14, rate / 10, 16),
        _ => (0, 0, 0),
    }
}

fn frame(format: Format, number: u32, channels: &[Vec<i32>]) -> Vec<u8> {
    let Format { depth, sample_rate, .. } = format;
    let (rate, rate_number, rate_bits) = rate_code(sample_rate);
    let n = channels[0].len();
    let (assignment, coded) = choose(depth.bits(), channels);
    let mut bits = Bits::default();
    // Sync code, fixed block size.
    bits.put(0xfff8, 16);
    bits.put(if n == BLOCK { 12 } else { 7 }, 4);
    bits.put(rate, 4);
    bits.put(assignment, 4);
    bits.put(if depth == Depth::S16 { 4 } else { 6 }, 3);
    bits.put(0, 1);
    bits.put_coded(number);
    if n != BLOCK {
        bits.put(n as u64 - 1, 16);
    }
    bits.put(rate_number.into(), rate_bits);
    let check = crc8(bits.as_bytes());
    bits.put(check.into(), 8);
    coded.iter().for_each(|(channel, width)| Subframe::best(channel, *width).write(&mut bits));
    bits.align();
    let check = bits::crc16(bits.as_bytes());
    bits.put(check.into(), 16);
    bits.bytes()
}

/// Samples, and their bits per sample.
type Coded<'a> = (Cow<'a, [i32]>, u32);

/// Returns the channel assignment, and the samples to code.
fn choose(bits: u32, channels: &[Vec<i32>]) -> (u64, Vec<Coded<'_>>) {
    let [left, right] = channels else {
        let coded = channels.iter().map(|channel| (Cow::from(channel), bits)).collect();
        return (channels.len() as u64 - 1, coded);
    };
    let pairs = || left.iter().zip(right);
    let side: Vec<i32> = pairs().map(|(left, right)| left - right).collect();
    let middle: Vec<i32> = pairs().map(|(left, right)| (left + right) >> 1).collect();
    let [l, r, m, s] = [left, right, &middle, &side].map(|channel| predict::roughness(channel));
    let least = (l + r).min(l + s).min(s + r).min(m + s);
    let [left, right] = [left, right].map(|channel| (Cow::from(channel), bits));
    let [middle, side] = [(Cow::from(middle), bits), (Cow::from(side), bits + 1)];
    match least {
        _ if least == l + r => (1, vec![left, right]),
        _ if least == l + s => (8, vec![left, side]),
        _ if least == s + r => (9, vec![side, right]),
        _ => (10, vec![middle, side]),
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("writing FLAC", error)
}

#[cfg(test)]
mod tests;
