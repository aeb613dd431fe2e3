//! Writes audio in any of the formats that Melisma writes.

#[cfg(feature = "codecs")]
mod mp3;
#[cfg(feature = "codecs")]
mod mp3_length;
#[cfg(feature = "codecs")]
mod opus;
#[cfg(feature = "codecs")]
mod rate_converter;

use std::fmt;
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::Layout;
use super::flac::{self, Depth};
use super::wav::{self, SampleFormat};
use crate::{Error, Result};

/// A format that audio is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// WAV, or RF64 beyond 4 GiB.
    Wav(SampleFormat),
    /// FLAC.
    Flac(Depth),
    /// MP3, about 128 kbit/s for one channel and 192 kbit/s for two.
    Mp3,
    /// Opus in Ogg, about 64 kbit/s and channel.
    Opus,
}

impl Format {
    /// The suffixes of the formats, for messages.
    pub const SUFFIXES: &str = ".wav, .flac, .mp3 or .opus";

    /// Returns the format that the suffix of `path` names, with samples of `samples` where it stores samples.
    ///
    /// # Errors
    /// `Unsupported`: no format has this suffix. `InvalidArgument`: the format does not store such samples.
    pub fn of(path: impl AsRef<Path>, samples: SampleFormat) -> Result<Self> {
        let path = path.as_ref();
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase()).unwrap_or_default();
        let lossy = |name: &str| {
            let message = format!("{}: {name} does not store samples, so they have no format", path.display());
            Error::invalid(message).with_hint("leave the sample format at s16, or name a .wav or .flac file")
        };
        match (suffix.as_str(), samples) {
            ("wav" | "wave", _) => Ok(Self::Wav(samples)),
            ("flac", SampleFormat::S16) => Ok(Self::Flac(Depth::S16)),
            ("flac", SampleFormat::S24) => Ok(Self::Flac(Depth::S24)),
            ("flac", _) => Err(Error::invalid(format!("{}: FLAC stores 16 or 24 bits", path.display()))
                .with_hint("use the sample format s24, or name a .wav file")),
            ("mp3", SampleFormat::S16) => Ok(Self::Mp3),
            ("mp3", _) => Err(lossy("MP3")),
            ("opus", SampleFormat::S16) => Ok(Self::Opus),
            ("opus", _) => Err(lossy("Opus")),
            _ => Err(Error::unsupported(format!("{}: cannot write this format", path.display()))
                .with_hint(format!("name it {}", Self::SUFFIXES))),
        }
    }
}

/// Writes one stream of audio while it comes.
///
/// ```
/// use melisma::audio::{Format, Layout, Writer};
///
/// let layout = Layout::new(24_000, 1);
/// let mut writer = Writer::piped(Vec::new(), Format::Opus, layout)?;
/// writer.write(&[0.1; 24_000])?;
/// let bytes = writer.finish()?;
/// assert!(bytes.starts_with(b"OggS"));
/// # Ok::<(), melisma::Error>(())
/// ```
pub struct Writer<W: Write> {
    kind: Kind<W>,
    n_channels: usize,
}

enum Kind<W: Write> {
    Wav(wav::Writer<W>),
    Flac(Box<flac::Writer<W>>),
    #[cfg(feature = "codecs")]
    Mp3(Box<mp3::Writer<W>>),
    #[cfg(feature = "codecs")]
    Opus(Box<opus::Writer<W>>),
}

/// Calls the same method of whichever writer it is.
macro_rules! each {
    ($kind:expr, $writer:ident => $call:expr) => {
        match $kind {
            Kind::Wav($writer) => $call,
            Kind::Flac($writer) => $call,
            #[cfg(feature = "codecs")]
            Kind::Mp3($writer) => $call,
            #[cfg(feature = "codecs")]
            Kind::Opus($writer) => $call,
        }
    };
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a stream of unknown length, which [`Writer::finish`] ends.
    ///
    /// # Errors
    /// `InvalidArgument`: the format has no such rate or number of channels. `Io`: the sink fails.
    pub fn piped(sink: W, format: Format, layout: Layout) -> Result<Self> {
        Self::sized(sink, format, layout, None)
    }

    /// Creates a stream of `n_samples` samples per channel, if known: headers of WAV, FLAC and MP3 have their number.
    ///
    /// # Errors
    /// Those of [`Writer::piped`].
    pub fn sized(sink: W, format: Format, layout: Layout, n_samples: Option<u64>) -> Result<Self> {
        let kind = match format {
            Format::Wav(samples) => Kind::Wav(wav::Writer::piped(sink, layout, samples, n_samples)?),
            Format::Flac(depth) => Kind::Flac(Box::new(flac::Writer::piped(sink, layout, depth, n_samples)?)),
            #[cfg(feature = "codecs")]
            Format::Mp3 => Kind::Mp3(Box::new(mp3::Writer::piped(sink, layout, n_samples)?)),
            #[cfg(feature = "codecs")]
            Format::Opus => Kind::Opus(Box::new(opus::Writer::piped(sink, layout)?)),
            #[cfg(not(feature = "codecs"))]
            Format::Mp3 | Format::Opus => return Err(left_out()),
        };
        Ok(Self { kind, n_channels: layout.n_channels })
    }

    /// Appends interleaved samples, in whole frames.
    ///
    /// # Errors
    /// The last frame is not whole; or `Io`: the sink fails.
    pub fn write(&mut self, samples: &[f32]) -> Result<()> {
        if !samples.len().is_multiple_of(self.n_channels) {
            let message = format!("{} samples are not whole frames of {} channels", samples.len(), self.n_channels);
            return Err(Error::invalid(message));
        }
        each!(&mut self.kind, writer => writer.write(samples))
    }

    /// Flushes the sink. Samples that wait for a full block stay.
    ///
    /// # Errors
    /// `Io`: the sink fails.
    pub fn flush(&mut self) -> Result<()> {
        each!(&mut self.kind, writer => writer.flush())
    }

    /// Finishes a pipe.
    ///
    /// # Errors
    /// `Io`: the sink fails.
    pub fn finish(self) -> Result<W> {
        each!(self.kind, writer => writer.finish())
    }
}

impl<W: Read + Write + Seek> Writer<W> {
    /// Begins a file, which [`Writer::seal`] ends. A [`std::fs::File`] must be open for reading
    /// too, which that of [`File::create`](std::fs::File::create) is not.
    ///
    /// # Errors
    /// Those of [`Writer::piped`].
    pub fn new(sink: W, format: Format, layout: Layout) -> Result<Self> {
        let kind = match format {
            Format::Wav(_) => return Self::piped(sink, format, layout),
            Format::Flac(depth) => {
                Kind::Flac(Box::new(flac::Writer::new(sink, layout.sample_rate, layout.n_channels, depth)?))
            }
            #[cfg(feature = "codecs")]
            Format::Mp3 => Kind::Mp3(Box::new(mp3::Writer::new(sink, layout)?)),
            #[cfg(feature = "codecs")]
            Format::Opus => Kind::Opus(Box::new(opus::Writer::new(sink, layout)?)),
            #[cfg(not(feature = "codecs"))]
            Format::Mp3 | Format::Opus => return Err(left_out()),
        };
        Ok(Self { kind, n_channels: layout.n_channels })
    }

    /// Finishes a file: writes its length into the header, at position 0 of the sink.
    ///
    /// # Errors
    /// `Io`: the sink fails.
    pub fn seal(self) -> Result<W> {
        match self.kind {
            Kind::Wav(writer) => writer.seal(),
            Kind::Flac(writer) => writer.seal(),
            #[cfg(feature = "codecs")]
            Kind::Mp3(writer) => writer.seal(),
            // Its last page says where it ends.
            #[cfg(feature = "codecs")]
            Kind::Opus(writer) => writer.finish(),
        }
    }
}

#[cfg(not(feature = "codecs"))]
fn left_out() -> Error {
    Error::unsupported("this build has no MP3 or Opus encoder").with_hint("build it with the feature `codecs`")
}

#[cfg(test)]
#[cfg(feature = "codecs")]
mod tests;
