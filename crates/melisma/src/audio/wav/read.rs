use super::{SampleFormat, TAG_EXTENSIBLE, TAG_FLOAT, TAG_PCM, UNKNOWN_SIZE};
use crate::audio::Clip;
use crate::{Error, Kind, Result};

const MAX_CHANNELS: u16 = 256;
const MAX_SAMPLE_RATE: u32 = 3_072_000;

/// A WAV file in memory whose header was checked; samples are converted on demand.
#[derive(Debug, Clone)]
pub struct Wav<'a> {
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Channels, at least one.
    pub n_channels: usize,
    /// How samples are stored.
    pub format: SampleFormat,
    /// What was wrong with the file and repaired, for the user.
    pub note: Option<String>,
    data: &'a [u8],
}

/// Reads the header of a WAV file.
///
/// # Errors
/// `Corrupt` when the header contradicts itself, `Truncated` when the file ends before its data does, `Unsupported` for
/// other codings and for more than 256 channels. A data size of 0 or 0xFFFFFFFF, as written into pipes, is no error:
/// the data reaches to the end of the file then, and [`Wav::note`] says so.
pub fn read(bytes: &[u8]) -> Result<Wav<'_>> {
    let long = match bytes.get(..4) {
        Some(b"RIFF") => false,
        Some(b"RF64" | b"BW64") => true,
        Some(_) => return Err(corrupt("not a WAV file: no RIFF at its start")),
        None => return Err(truncated(format!("a WAV file of {} bytes", bytes.len()))),
    };
    match bytes.get(8..12) {
        Some(b"WAVE") => {}
        Some(_) => return Err(corrupt("a RIFF file, but not of type WAVE")),
        None => return Err(truncated(format!("a WAV file of {} bytes", bytes.len()))),
    }
    let mut rest = &bytes[12..];
    let mut layout = None;
    let mut long_data_len = None;
    while let Some((head, body)) = rest.split_at_checked(8) {
        let size = u32_at(head, 4)?;
        match &head[..4] {
            b"ds64" if long => long_data_len = Some(u64_at(body, 8)?),
            b"fmt " => layout = Some(Layout::read(chunk(body, "fmt", size)?)?),
            b"data" => {
                let layout = layout.ok_or_else(|| corrupt("the data chunk comes before the fmt chunk"))?;
                let declared = long_data_len.filter(|_| size == UNKNOWN_SIZE).unwrap_or(u64::from(size));
                return layout.with_data(body, declared);
            }
            _ => {}
        }
        // Chunks are padded to even sizes.
        let step = size as usize + (size as usize & 1);
        rest =
            body.get(step..).ok_or_else(|| truncated(format!("a chunk of {size} bytes, {} are left", body.len())))?;
    }
    Err(truncated("a WAV file without a data chunk"))
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    sample_rate: u32,
    n_channels: u16,
    format: SampleFormat,
}

impl Layout {
    fn read(body: &[u8]) -> Result<Self> {
        let mut tag = u16_at(body, 0)?;
        let n_channels = u16_at(body, 2)?;
        let sample_rate = u32_at(body, 4)?;
        let block_len = u16_at(body, 12)?;
        let n_bits = u16_at(body, 14)?;
        if tag == TAG_EXTENSIBLE {
            // The first two bytes of the sub-format's GUID are a plain format tag.
            tag = u16_at(body, 24)?;
        }
        if sample_rate == 0 || sample_rate > MAX_SAMPLE_RATE {
            return Err(corrupt(format!("a sample rate of {sample_rate} Hz; 1 to {MAX_SAMPLE_RATE} are possible")));
        }
        if n_channels == 0 {
            return Err(corrupt("a file of 0 channels"));
        }
        if n_channels > MAX_CHANNELS {
            return Err(Error::unsupported(format!("{n_channels} channels; at most {MAX_CHANNELS} are read")));
        }
        let format = match (tag, n_bits) {
            (TAG_PCM, 8) => SampleFormat::U8,
            (TAG_PCM, 16) => SampleFormat::S16,
            (TAG_PCM, 24) => SampleFormat::S24,
            (TAG_PCM, 32) => SampleFormat::S32,
            (TAG_FLOAT, 32) => SampleFormat::F32,
            (TAG_FLOAT, 64) => SampleFormat::F64,
            _ => {
                return Err(Error::unsupported(format!("WAV coding {tag} with {n_bits} bits"))
                    .with_hint("convert it to 16-bit PCM or 32-bit float"));
            }
        };
        let expected = u32::from(n_channels) * format.bytes() as u32;
        if u32::from(block_len) != expected {
            return Err(corrupt(format!(
                "blocks of {block_len} bytes, but {n_channels} channels of {n_bits} bits make {expected}"
            )));
        }
        Ok(Self { sample_rate, n_channels, format })
    }

    fn with_data(self, body: &[u8], declared: u64) -> Result<Wav<'_>> {
        let mut note = None;
        let unknown =
            declared == u64::from(UNKNOWN_SIZE) || declared == u64::MAX || (declared == 0 && !body.is_empty());
        let mut data = match usize::try_from(declared).ok().and_then(|len| body.get(..len)) {
            Some(data) if !unknown => data,
            _ if unknown => {
                note = Some(format!("the data size is not in the header; {} bytes to the end were taken", body.len()));
                body
            }
            _ => return Err(truncated(format!("{declared} bytes of samples are declared, {} are there", body.len()))),
        };
        let block_len = usize::from(self.n_channels) * self.format.bytes();
        let rest = data.len() % block_len;
        if rest != 0 {
            data = &data[..data.len() - rest];
            note = Some(format!("{rest} bytes after the last whole sample were left out"));
        }
        let n_channels = usize::from(self.n_channels);
        Ok(Wav { sample_rate: self.sample_rate, n_channels, format: self.format, note, data })
    }
}

impl Wav<'_> {
    /// Samples per channel.
    pub fn n_frames(&self) -> usize {
        self.data.len() / (self.n_channels * self.format.bytes())
    }

    /// All samples; a NaN or infinity in the file stays what it is.
    pub fn to_clip(&self) -> Clip {
        let data = self.data;
        let samples = match self.format {
            SampleFormat::U8 => data.iter().map(|&byte| (f32::from(byte) - 128.0) / 128.0).collect(),
            SampleFormat::S16 => each(data, |b: [u8; 2]| f32::from(i16::from_le_bytes(b)) / 32_768.0),
            SampleFormat::S24 => each(data, |[a, b, c]: [u8; 3]| {
                // The sample sits in the upper three bytes, so its sign is the integer's.
                (i32::from_le_bytes([0, a, b, c]) >> 8) as f32 / 8_388_608.0
            }),
            SampleFormat::S32 => each(data, |b: [u8; 4]| (f64::from(i32::from_le_bytes(b)) / 2_147_483_648.0) as f32),
            SampleFormat::F32 => each(data, f32::from_le_bytes),
            SampleFormat::F64 => each(data, |b: [u8; 8]| f64::from_le_bytes(b) as f32),
        };
        Clip { sample_rate: self.sample_rate, n_channels: self.n_channels, samples }
    }
}

fn each<const N: usize>(data: &[u8], sample: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    data.as_chunks::<N>().0.iter().map(|&bytes| sample(bytes)).collect()
}

fn chunk<'a>(body: &'a [u8], name: &str, size: u32) -> Result<&'a [u8]> {
    body.get(..size as usize)
        .ok_or_else(|| truncated(format!("the {name} chunk has {size} bytes, {} are there", body.len())))
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes
        .get(at..at + N)
        .and_then(|field| field.try_into().ok())
        .ok_or_else(|| truncated(format!("a header field at byte {at} of {}", bytes.len())))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

fn corrupt(message: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, message)
}

fn truncated(message: impl Into<String>) -> Error {
    Error::new(Kind::Truncated, message)
}
