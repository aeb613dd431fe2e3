//! Headers of the WAV family: RIFF, RIFX (big-endian), RF64 and BW64 (64-bit sizes in a `ds64`
//! chunk), and Sony's W64 (GUIDs as names, 64-bit sizes that include their header, chunks padded to
//! 8 bytes).

use std::ops::RangeInclusive;

use super::{MAX_SAMPLE_RATE, SampleFormat, TAG_ALAW, TAG_EXTENSIBLE, TAG_FLOAT, TAG_MULAW, TAG_PCM, UNKNOWN_SIZE};
use crate::text::count;
use crate::{Error, Result};

const MAX_CHANNELS: u16 = 256;
/// The most chunks before the data that are searched.
const MAX_CHUNKS: usize = 10_000;
/// The sizes that sox and arecord store in a pipe, about 2 GiB.
const PIPED_SIZES: RangeInclusive<u64> = 0x7fff_0000..=0x8000_0000;
/// The data length of a pipe that is read to its end.
pub(super) const OPEN_END: u64 = u64::MAX;
const W64_RIFF: [u8; 16] = *b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00";
/// The bytes after the four letters in the GUIDs of W64's chunks.
const W64_TAIL: [u8; 12] = [0xf3, 0xac, 0xd3, 0x11, 0x8c, 0xd1, 0x00, 0xc0, 0x4f, 0x8e, 0xdb, 0x8a];

/// A source of header bytes: a slice, a file or a pipe.
pub(crate) trait Bytes {
    /// Returns the number of bytes, or a bound if the end is open.
    fn len(&self) -> u64;
    /// Returns whether the number of bytes is known only at their end.
    fn is_open(&self) -> bool {
        false
    }
    /// Fills `to` with the bytes from `at` on.
    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()>;
}

impl Bytes for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..to.len()));
        let from = from
            .ok_or_else(|| Error::truncated(format!("no {} bytes at byte {at} of {}", to.len(), <[u8]>::len(self))))?;
        to.copy_from_slice(from);
        Ok(())
    }
}

/// The encoding of a sample in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coding {
    /// Little-endian numbers.
    Little(SampleFormat),
    /// Big-endian numbers.
    Big(SampleFormat),
    /// 8-bit A-law.
    ALaw,
    /// 8-bit mu-law.
    MuLaw,
}

impl Coding {
    /// Returns the bytes of one sample in the file.
    pub fn bytes(self) -> usize {
        match self {
            Self::Little(format) | Self::Big(format) => format.bytes(),
            Self::ALaw | Self::MuLaw => 1,
        }
    }

    /// Returns the sample format that holds the decoded values.
    pub fn format(self) -> SampleFormat {
        match self {
            Self::Little(format) | Self::Big(format) => format,
            Self::ALaw | Self::MuLaw => SampleFormat::S16,
        }
    }
}

/// A header that has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// The number of channels, at least one.
    pub n_channels: usize,
    /// How samples are stored.
    pub coding: Coding,
    /// The file offset of the samples.
    pub data_at: u64,
    /// Bytes of samples, a multiple of the block length; `u64::MAX` in a pipe that is read to its
    /// end.
    pub data_len: u64,
    /// A defect of the file that was repaired.
    pub note: Option<String>,
}

impl Header {
    /// Returns the bytes per block: one sample of every channel.
    pub fn block_len(&self) -> usize {
        self.n_channels * self.coding.bytes()
    }

    /// Returns the number of samples per channel.
    pub fn n_frames(&self) -> u64 {
        self.data_len / self.block_len() as u64
    }

    /// Reads the header of `source`.
    pub(crate) fn read(source: &(impl Bytes + ?Sized)) -> Result<Self> {
        let family = Family::of(source)?;
        let mut at = family.first_chunk();
        let (mut layout, mut long_data_len) = (None, None);
        for _ in 0..MAX_CHUNKS {
            if source.len().saturating_sub(at) < family.chunk_header() {
                break;
            }
            let chunk = family.chunk(source, at)?;
            let left = source.len() - chunk.body;
            match &chunk.name {
                b"ds64" if family == Family::Long => {
                    let mut field = [0; 8];
                    source.read_at(chunk.body + 8, &mut field)?;
                    long_data_len = Some(u64::from_le_bytes(field));
                }
                b"fmt " => layout = Some(Layout::read(source, &chunk, family)?),
                b"data" => {
                    let layout: Layout =
                        layout.ok_or_else(|| Error::corrupt("the data chunk comes before the fmt chunk"))?;
                    let declared = long_data_len.filter(|_| chunk.len == u64::from(UNKNOWN_SIZE)).unwrap_or(chunk.len);
                    return layout.with_data(chunk.body, declared, (!source.is_open()).then_some(left));
                }
                _ => {}
            }
            let next = chunk.body.checked_add(chunk.len).and_then(|end| end.checked_add(family.padding(end)));
            at = next
                .filter(|&next| next <= source.len())
                .ok_or_else(|| Error::truncated(format!("a chunk of {} bytes, {left} are left", chunk.len)))?;
        }
        Err(Error::truncated("a WAV file without a data chunk"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Riff,
    /// Big-endian RIFF.
    Rifx,
    /// RF64 and BW64.
    Long,
    W64,
}

struct Chunk {
    name: [u8; 4],
    body: u64,
    len: u64,
}

impl Family {
    fn of(source: &(impl Bytes + ?Sized)) -> Result<Self> {
        let mut head = [0; 40];
        let known = source.len().min(40) as usize;
        source.read_at(0, &mut head[..known])?;
        let short =
            || Error::truncated(format!("the WAV file ends in its header, after {}", count(source.len(), "byte")));
        let (family, kind) = match head.get(..4).filter(|_| known >= 4) {
            Some(b"RIFF") => (Self::Riff, &head[8..12]),
            Some(b"RIFX") => (Self::Rifx, &head[8..12]),
            Some(b"RF64" | b"BW64") => (Self::Long, &head[8..12]),
            Some(b"riff") if known >= 16 && head[..16] == W64_RIFF => (Self::W64, &head[24..28]),
            Some(b"riff") if known < 16 => return Err(short()),
            Some(_) => {
                return Err(Error::corrupt("not a WAV file: no RIFF at its start").with_hint(
                    "audio is WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, M4A, AIFF or CAF; convert other formats, \
                     as in `ffmpeg -i IN OUT.wav`",
                ));
            }
            None => return Err(short()),
        };
        if known < family.first_chunk() as usize {
            return Err(short());
        }
        if !kind.eq_ignore_ascii_case(b"WAVE") {
            return Err(Error::corrupt("a RIFF file, but not of type WAVE"));
        }
        Ok(family)
    }

    fn first_chunk(self) -> u64 {
        if self == Self::W64 { 40 } else { 12 }
    }

    fn chunk_header(self) -> u64 {
        if self == Self::W64 { 24 } else { 8 }
    }

    fn chunk(self, source: &(impl Bytes + ?Sized), at: u64) -> Result<Chunk> {
        let mut head = [0; 24];
        let head = &mut head[..self.chunk_header() as usize];
        source.read_at(at, head)?;
        let name = [head[0], head[1], head[2], head[3]];
        let body = at + self.chunk_header();
        if self == Self::W64 {
            let whole = head[16..24].try_into().map_or(0, u64::from_le_bytes);
            let len =
                whole.checked_sub(24).ok_or_else(|| Error::corrupt(format!("a chunk cannot have {whole} bytes")))?;
            let is_known = head[4..16] == W64_TAIL;
            return Ok(Chunk { name: if is_known { name } else { [0; 4] }, body, len });
        }
        let len = [head[4], head[5], head[6], head[7]];
        let len = if self == Self::Rifx { u32::from_be_bytes(len) } else { u32::from_le_bytes(len) };
        Ok(Chunk { name, body, len: u64::from(len) })
    }

    /// Returns the padding of a chunk that ends at `end`: to an even size, in W64 to a multiple of 8.
    fn padding(self, end: u64) -> u64 {
        if self == Self::W64 { end.wrapping_neg() & 7 } else { end & 1 }
    }
}

struct Layout {
    sample_rate: u32,
    n_channels: u16,
    coding: Coding,
}

impl Layout {
    fn read(source: &(impl Bytes + ?Sized), chunk: &Chunk, family: Family) -> Result<Self> {
        let mut body = [0; 40];
        let known = chunk.len.min(40) as usize;
        let left = source.len() - chunk.body;
        if left < chunk.len {
            return Err(Error::truncated(format!("the fmt chunk has {} bytes, {left} are there", chunk.len)));
        }
        source.read_at(chunk.body, &mut body[..known])?;
        let field = |at: usize| {
            let bytes = [body[at], body[at + 1]];
            match at + 2 <= known {
                true if family == Family::Rifx => Ok(u16::from_be_bytes(bytes)),
                true => Ok(u16::from_le_bytes(bytes)),
                false => Err(Error::truncated(format!("the format ends at {known}, before its field at {at}"))),
            }
        };
        let mut tag = field(0)?;
        let n_channels = field(2)?;
        let halves = [u32::from(field(4)?), u32::from(field(6)?)];
        let sample_rate =
            if family == Family::Rifx { halves[0] << 16 | halves[1] } else { halves[1] << 16 | halves[0] };
        let (block_len, n_bits) = (field(12)?, field(14)?);
        if tag == TAG_EXTENSIBLE {
            // The first two bytes of the sub-format's GUID are a plain format tag.
            tag = field(24)?;
        }
        if sample_rate == 0 || sample_rate > MAX_SAMPLE_RATE {
            return Err(Error::corrupt(format!(
                "a sample rate of {sample_rate} Hz; 1 to {MAX_SAMPLE_RATE} are possible"
            )));
        }
        if n_channels == 0 {
            return Err(Error::corrupt("the file has 0 channels"));
        }
        if n_channels > MAX_CHANNELS {
            return Err(Error::unsupported(format!("{n_channels} channels; at most {MAX_CHANNELS} are read")));
        }
        let coding = coding(tag, n_bits, family)?;
        let expected = u32::from(n_channels) * coding.bytes() as u32;
        if u32::from(block_len) != expected {
            return Err(Error::corrupt(format!(
                "blocks of {block_len} bytes, but {n_channels} channels of {n_bits} bits make {expected}"
            )));
        }
        Ok(Self { sample_rate, n_channels, coding })
    }

    /// Adds the data chunk; `left` is `None` if the end is open.
    fn with_data(self, data_at: u64, declared: u64, left: Option<u64>) -> Result<Header> {
        let mut note = None;
        let is_unset = declared == u64::from(UNKNOWN_SIZE) || declared == u64::MAX;
        let mut data_len = declared;
        match left {
            Some(left) if is_unset || (declared == 0 && left > 0) => {
                note = Some(format!("the data size is not in the header; taken to the end, {}", count(left, "byte")));
                data_len = left;
            }
            Some(left) if declared > left => return Err(too_short(declared, left)),
            None if is_unset || declared == 0 || PIPED_SIZES.contains(&declared) => {
                note = Some("the data size is not in the header; read to the end".to_owned());
                return Ok(self.header(data_at, OPEN_END, note));
            }
            _ => {}
        }
        let n_channels = usize::from(self.n_channels);
        let rest = data_len % (n_channels * self.coding.bytes()) as u64;
        if rest != 0 {
            data_len -= rest;
            note = Some(format!("left out {} after the last whole sample", count(rest, "byte")));
        }
        Ok(self.header(data_at, data_len, note))
    }

    fn header(self, data_at: u64, data_len: u64, note: Option<String>) -> Header {
        let Self { sample_rate, n_channels, coding } = self;
        Header { sample_rate, n_channels: usize::from(n_channels), coding, data_at, data_len, note }
    }
}

/// Returns the error for a file that ends before its declared end.
pub(super) fn too_short(declared: u64, there: u64) -> Error {
    Error::truncated(format!("{declared} bytes of samples are declared, {there} are there"))
}

/// Returns the coding; integers of odd bit depths are left-aligned in the next whole number of bytes.
fn coding(tag: u16, n_bits: u16, family: Family) -> Result<Coding> {
    let format = match (tag, n_bits) {
        (TAG_PCM, 1..=8) => SampleFormat::U8,
        (TAG_PCM, 9..=16) => SampleFormat::S16,
        (TAG_PCM, 17..=24) => SampleFormat::S24,
        (TAG_PCM, 25..=32) => SampleFormat::S32,
        (TAG_FLOAT, 32) => SampleFormat::F32,
        (TAG_FLOAT, 64) => SampleFormat::F64,
        (TAG_ALAW, 8) => return Ok(Coding::ALaw),
        (TAG_MULAW, 8) => return Ok(Coding::MuLaw),
        _ => {
            return Err(Error::unsupported(format!("unsupported WAV coding {tag} with {n_bits} bits"))
                .with_hint("convert it to 16-bit PCM or 32-bit float"));
        }
    };
    Ok(if family == Family::Rifx { Coding::Big(format) } else { Coding::Little(format) })
}
