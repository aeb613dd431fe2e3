//! WAV: RIFF, RIFX, RF64, BW64 and W64 files with 8- to 32-bit PCM, 32- and 64-bit floats, A-law or
//! mu-law.
//!
//! Integers and floats convert by a power of two (32768 for 16 bits), so reading and writing are
//! lossless.
//!
//! ```
//! use melisma::audio::{Clip, wav};
//! let clip = Clip::mono(24_000, vec![0.0, 0.5, -0.5]);
//! let bytes = wav::encode(&clip, wav::SampleFormat::S16)?;
//! assert_eq!(wav::decode(&bytes)?.to_clip(), clip);
//! # Ok::<(), melisma::Error>(())
//! ```

mod file;
pub(crate) mod header;
mod pipe;
mod read;
pub(crate) mod sample;
mod write;

#[doc(hidden)]
pub use file::File;
#[doc(hidden)]
pub use header::{Coding, Header};
pub(crate) use pipe::Pipe;
pub use read::{Wav, decode};
pub use write::{Writer, encode};

/// How a sample is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SampleFormat {
    /// 8-bit unsigned integers.
    U8,
    /// 16-bit integers.
    #[default]
    S16,
    /// 24-bit integers.
    S24,
    /// 32-bit integers.
    S32,
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
}

impl SampleFormat {
    /// Returns the bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::S16 => 2,
            Self::S24 => 3,
            Self::S32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the format called `name` on the command line: `s16`, `s24` or `f32`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "s16" => Some(Self::S16),
            "s24" => Some(Self::S24),
            "f32" => Some(Self::F32),
            _ => None,
        }
    }

    /// Returns the name of the format, as [`from_name`](Self::from_name) takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::S24 => "s24",
            Self::S32 => "s32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns whether samples beyond full scale are preserved.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// Returns whether a file that begins with `start` is for this reader.
pub(crate) fn is_wav(start: &[u8]) -> bool {
    [b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff"].iter().any(|name| start.starts_with(*name))
}

/// The highest sample rate that is read or written, in hertz.
pub(super) const MAX_SAMPLE_RATE: u32 = 3_072_000;
const TAG_PCM: u16 = 1;
const TAG_FLOAT: u16 = 3;
const TAG_ALAW: u16 = 6;
const TAG_MULAW: u16 = 7;
const TAG_EXTENSIBLE: u16 = 0xFFFE;
/// The size that a writer into a pipe stores, because it cannot know the real one.
const UNKNOWN_SIZE: u32 = u32::MAX;

#[cfg(test)]
mod tests;
