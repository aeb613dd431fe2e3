use std::io::{Cursor, Read, Seek, SeekFrom, Write};

use super::{MAX_SAMPLE_RATE, SampleFormat, TAG_FLOAT, TAG_PCM, UNKNOWN_SIZE};
use crate::audio::{Clip, Layout};
use crate::{Error, Result};

/// Writes WAV incrementally.
///
/// The header first declares unknown sizes, which readers of pipes accept. If the sink can seek,
/// [`Writer::seal`] fills in the sizes. A file too long for 32-bit sizes then becomes RF64 (EBU
/// Tech 3306): its samples move up once, to make room for a `ds64` chunk. Reserving that room from
/// the start would change every ordinary file.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    format: SampleFormat,
    block_len: u64,
    data_len: u64,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Returns the sink.
    pub fn sink(&self) -> &W {
        &self.sink
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 Hz, or channels outside 1..=256; `Io` if the sink fails.
    pub fn new(sink: W, sample_rate: u32, n_channels: usize, format: SampleFormat) -> Result<Self> {
        Self::piped(sink, Layout::new(sample_rate, n_channels), format, None)
    }

    /// Writes a header with the sizes of `n_samples` samples per channel, if they are known and have 32 bits.
    ///
    /// # Errors
    /// Those of [`Writer::new`].
    pub fn piped(mut sink: W, layout: Layout, format: SampleFormat, n_samples: Option<u64>) -> Result<Self> {
        sink.write_all(&header(layout, format, n_samples)?).map_err(failed)?;
        let block_len = (layout.n_channels * format.bytes()) as u64;
        Ok(Self { sink, format, block_len, data_len: 0, scratch: Vec::new() })
    }

    /// Appends interleaved samples. Integers are rounded to nearest, ties to even, and clipped; NaN
    /// becomes silence.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        for block in samples.chunks(4096) {
            self.scratch.clear();
            store(block, self.format, &mut self.scratch);
            self.sink.write_all(&self.scratch).map_err(failed)?;
            self.data_len += self.scratch.len() as u64;
        }
        Ok(())
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(failed)
    }

    /// Finishes a pipe: the sizes in the header stay as they are.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn finish(mut self) -> Result<W> {
        if self.data_len % 2 == 1 {
            self.sink.write_all(&[0]).map_err(failed)?;
        }
        self.flush()?;
        Ok(self.sink)
    }
}

impl<W: Read + Write + Seek> Writer<W> {
    /// Finishes a file: writes the sizes into the header, which starts at position 0 of the sink.
    ///
    /// # Errors
    /// `Io` if the sink fails.
    pub fn seal(self) -> Result<W> {
        self.seal_below(UNKNOWN_SIZE.into())
    }

    /// Works like [`Writer::seal`]; files of `limit` bytes or more become RF64.
    pub(super) fn seal_below(self, limit: u64) -> Result<W> {
        let Self { format, data_len, block_len, .. } = self;
        let header_len = header_len(format);
        let n_frames = data_len / block_len;
        let riff_len = header_len - 8 + data_len + data_len % 2;
        let mut sink = self.finish()?;
        let mut put = |at: u64, bytes: &[u8]| -> Result<()> {
            sink.seek(SeekFrom::Start(at)).map_err(failed)?;
            sink.write_all(bytes).map_err(failed)
        };
        if riff_len < limit {
            put(4, &(riff_len as u32).to_le_bytes())?;
            put(header_len - 4, &(data_len as u32).to_le_bytes())?;
            if format.is_float() {
                put(header_len - 12, &(n_frames as u32).to_le_bytes())?;
            }
        } else {
            move_up(&mut sink, RIFF_LEN, DS64_LEN).map_err(failed)?;
            sink.seek(SeekFrom::Start(0)).map_err(failed)?;
            sink.write_all(&rf64(riff_len + DS64_LEN, data_len, n_frames)).map_err(failed)?;
        }
        sink.seek(SeekFrom::End(0)).map_err(failed)?;
        sink.flush().map_err(failed)?;
        Ok(sink)
    }
}

/// `RIFF`, a size, `WAVE`.
const RIFF_LEN: u64 = 12;
/// A chunk header, the sizes of file and data, the number of samples, and an empty table.
const DS64_LEN: u64 = 8 + 28;
/// Bytes that are moved at once.
const MOVED: u64 = 1 << 20;

/// Returns the first bytes of an RF64 file, up to its `fmt ` chunk.
fn rf64(riff_len: u64, data_len: u64, n_frames: u64) -> Vec<u8> {
    let mut out = b"RF64".to_vec();
    out.extend_from_slice(&UNKNOWN_SIZE.to_le_bytes());
    out.extend_from_slice(b"WAVEds64");
    out.extend_from_slice(&28_u32.to_le_bytes());
    [riff_len, data_len, n_frames].iter().for_each(|size| out.extend_from_slice(&size.to_le_bytes()));
    out.extend_from_slice(&0_u32.to_le_bytes());
    out
}

/// Moves everything from byte `start` on up by `n` bytes, starting at the end.
fn move_up(sink: &mut (impl Read + Write + Seek), start: u64, n: u64) -> std::io::Result<()> {
    let mut end = sink.seek(SeekFrom::End(0))?;
    let mut bytes = vec![0; MOVED as usize];
    while end > start {
        let from = end.saturating_sub(MOVED).max(start);
        let bytes = &mut bytes[..(end - from) as usize];
        sink.seek(SeekFrom::Start(from))?;
        sink.read_exact(bytes)?;
        sink.seek(SeekFrom::Start(from + n))?;
        sink.write_all(bytes)?;
        end = from;
    }
    Ok(())
}

/// Encodes a clip as a WAV file.
///
/// # Errors
/// Those of [`Writer::new`], and `InvalidArgument` if a channel lacks a sample.
pub fn encode(clip: &Clip, format: SampleFormat) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), clip.sample_rate, clip.n_channels, format)?;
    if !clip.samples.len().is_multiple_of(clip.n_channels) {
        let message = format!("{} samples are not whole frames of {} channels", clip.samples.len(), clip.n_channels);
        return Err(Error::invalid(message));
    }
    writer.write(&clip.samples)?;
    Ok(writer.seal()?.into_inner())
}

/// Returns the bytes of the header: RIFF 12, fmt 8 + 16 (floats: 18, and a fact chunk of 12), data 8.
fn header_len(format: SampleFormat) -> u64 {
    if format.is_float() { 12 + 26 + 12 + 8 } else { 12 + 24 + 8 }
}

/// Returns the sizes of the file from its ninth byte on, of its samples, and the samples per channel.
fn sizes(format: SampleFormat, block_len: usize, n_samples: Option<u64>) -> Option<[u32; 3]> {
    let n_samples = n_samples?;
    let data_len = n_samples.checked_mul(block_len as u64)?;
    let riff_len = data_len.checked_add(header_len(format) - 8 + data_len % 2)?;
    let riff_len = u32::try_from(riff_len).ok().filter(|len| *len != UNKNOWN_SIZE)?;
    Some([riff_len, data_len as u32, n_samples as u32])
}

fn header(layout: Layout, format: SampleFormat, n_samples: Option<u64>) -> Result<Vec<u8>> {
    let Layout { sample_rate, n_channels } = layout;
    if !(1..=MAX_SAMPLE_RATE).contains(&sample_rate) {
        return Err(Error::invalid(format!("a WAV file of {sample_rate} Hz; 1 to {MAX_SAMPLE_RATE} are possible")));
    }
    let channels = u16::try_from(n_channels).ok().filter(|n| (1..=256).contains(n));
    let channels =
        channels.ok_or_else(|| Error::invalid(format!("a WAV file holds 1 to 256 channels, not {n_channels}")))?;
    let block_len = n_channels * format.bytes();
    let [riff_len, data_len, n_samples] = sizes(format, block_len, n_samples).unwrap_or([UNKNOWN_SIZE; 3]);
    let mut out = Vec::with_capacity(64);
    let (tag, fmt_len) = if format.is_float() { (TAG_FLOAT, 18_u32) } else { (TAG_PCM, 16) };
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&riff_len.to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&fmt_len.to_le_bytes());
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&channels.to_le_bytes());
    out.extend_from_slice(&sample_rate.to_le_bytes());
    out.extend_from_slice(&sample_rate.saturating_mul(block_len as u32).to_le_bytes());
    out.extend_from_slice(&(block_len as u16).to_le_bytes());
    out.extend_from_slice(&(8 * format.bytes() as u16).to_le_bytes());
    if format.is_float() {
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(b"fact");
        out.extend_from_slice(&4_u32.to_le_bytes());
        out.extend_from_slice(&n_samples.to_le_bytes());
    }
    out.extend_from_slice(b"data");
    out.extend_from_slice(&data_len.to_le_bytes());
    Ok(out)
}

/// Adding and subtracting it rounds to the nearest, ties to even, without a call: it leaves no bit for a
/// fraction. Sizes beyond 2^51, for which that is not so, are clipped anyway.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// The same for sizes up to 2^22.
const ROUND_F32: f32 = 12_582_912.0;

/// Appends the bytes of `samples`.
fn store(samples: &[f32], format: SampleFormat, out: &mut Vec<u8>) {
    // `as` saturates, which clips, and turns NaN into 0. Products with a power of two are exact.
    let scaled = |sample: f32, scale: f64| f64::from(sample) * scale + ROUND - ROUND;
    let of_24_bits = |sample| (scaled(sample, 8_388_608.0) as i32).clamp(-8_388_608, 8_388_607);
    match format {
        SampleFormat::U8 => {
            each(samples, out, |sample| [(scaled(sample, 128.0) as i32).clamp(-128, 127).wrapping_add(128) as u8]);
        }
        SampleFormat::S16 => {
            each(samples, out, |sample| ((sample * 32_768.0 + ROUND_F32 - ROUND_F32) as i16).to_le_bytes())
        }
        SampleFormat::S24 => each(samples, out, |sample| {
            let [low, middle, high, _] = of_24_bits(sample).to_le_bytes();
            [low, middle, high]
        }),
        SampleFormat::S32 => each(samples, out, |sample| (scaled(sample, 2_147_483_648.0) as i32).to_le_bytes()),
        SampleFormat::F32 => each(samples, out, f32::to_le_bytes),
        SampleFormat::F64 => each(samples, out, |sample| f64::from(sample).to_le_bytes()),
    }
}

/// Appends the `N` bytes of each sample.
fn each<const N: usize>(samples: &[f32], out: &mut Vec<u8>, bytes: impl Fn(f32) -> [u8; N]) {
    let start = out.len();
    out.resize(start + N * samples.len(), 0);
    out[start..].as_chunks_mut::<N>().0.iter_mut().zip(samples).for_each(|(out, sample)| *out = bytes(*sample));
}

fn failed(error: std::io::Error) -> Error {
    Error::io("writing WAV", error)
}
