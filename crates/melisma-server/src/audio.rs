//! Samples to the bytes of an audio format, while they come.

use std::io::{self, Write};
use std::sync::Arc;

use melisma::Result;
use melisma::audio::flac::Depth;
use melisma::audio::wav::SampleFormat;
use melisma::audio::{self, Writer};
use melisma::lock::Mutex;

pub use melisma::audio::Layout;

/// A format of whole answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 16-bit WAV.
    Wav,
    /// 16-bit FLAC.
    Flac,
    /// 16-bit little-endian samples without a header.
    Pcm,
    /// MP3.
    Mp3,
    /// Opus in Ogg.
    Opus,
}

impl Format {
    /// Values of the parameter `format`.
    pub const NAMES: &str = "wav, flac, pcm, mp3 or opus";

    /// Returns the format called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "wav" => Some(Self::Wav),
            "flac" => Some(Self::Flac),
            "pcm" => Some(Self::Pcm),
            "mp3" => Some(Self::Mp3),
            "opus" => Some(Self::Opus),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Flac => "flac",
            Self::Pcm => "pcm",
            Self::Mp3 => "mp3",
            Self::Opus => "opus",
        }
    }

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Wav => "audio/wav",
            Self::Flac => "audio/flac",
            Self::Pcm => "application/octet-stream",
            Self::Mp3 => "audio/mpeg",
            Self::Opus => "audio/ogg; codecs=opus",
        }
    }
}

/// Encodes one stream.
#[derive(Debug)]
pub struct Encoder {
    spool: Spool,
    writer: Writer<Spool>,
}

impl Encoder {
    /// Creates an encoder before the first sample, of `n_samples` per channel if their number is known.
    ///
    /// # Errors
    /// The format has no such rate or number of channels.
    pub fn new(format: Format, layout: Layout, n_samples: Option<u64>) -> Result<Self> {
        let spool = Spool::default();
        let format = match format {
            Format::Pcm => return Self::samples(SampleFormat::S16, layout),
            Format::Wav => audio::Format::Wav(SampleFormat::S16),
            Format::Flac => audio::Format::Flac(Depth::S16),
            Format::Mp3 => audio::Format::Mp3,
            Format::Opus => audio::Format::Opus,
        };
        let writer = Writer::sized(spool.clone(), format, layout, n_samples)?;
        Ok(Self { spool, writer })
    }

    /// Returns the samples without a header.
    ///
    /// # Errors
    /// As [`Encoder::new`].
    pub fn samples(format: SampleFormat, layout: Layout) -> Result<Self> {
        let spool = Spool::default();
        let writer = Writer::piped(spool.clone(), audio::Format::Wav(format), layout)?;
        spool.take();
        Ok(Self { spool, writer })
    }

    /// Takes interleaved samples and returns the bytes that they complete, the header first.
    ///
    /// # Errors
    /// None: the bytes go to memory.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<u8>> {
        self.writer.write(samples)?;
        Ok(self.spool.take())
    }

    /// Returns the last bytes.
    ///
    /// # Errors
    /// None: the bytes go to memory.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.writer.finish()?;
        Ok(self.spool.take())
    }
}

/// Bytes between a writer and the connection.
#[derive(Debug, Clone, Default)]
struct Spool {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Spool {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
