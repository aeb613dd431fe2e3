//! Audio from a file or a live pipe, read forwards as one channel at a given rate, in bounded
//! memory.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::clipping::Clipping;
use super::decode::Decoder;
use super::file::needs_file;
use super::resample::{Ratio, Running};
use super::source::{Origin, check_finite};
use super::wav;
use super::{Source, Target};
use crate::{Error, Result};

/// Samples that are read at once, before or after resampling, whichever are more.
const BLOCK: usize = 1 << 14;
/// Bytes and samples of a block of a WAV file before it is mixed down.
const PIPE_BYTES: u64 = 5 << 16;
/// Bytes that tell WAV from other formats.
const MAGIC_LEN: usize = 12;

/// An open file or pipe.
///
/// ```
/// use melisma::audio::{Clip, Stream, Target, wav};
/// let bytes = wav::encode(&Clip::mono(8_000, vec![0.25; 800]), wav::SampleFormat::S16)?;
/// let mut stream = Stream::live(std::io::Cursor::new(bytes), Target::new(24_000))?;
/// let mut n_samples = 0;
/// while let [_, ..] = stream.read()? {
///     n_samples = stream.n_read();
/// }
/// assert_eq!(n_samples, 2_400);
/// assert_eq!(stream.notes(), ["resampled from 8000 Hz to 24000 Hz"]);
/// # Ok::<(), melisma::Error>(())
/// ```
pub struct Stream {
    input: Input,
    target: Target,
    resampling: Option<Running>,
    block: Vec<f32>,
    sample_rate: u32,
    n_channels: usize,
    n_samples: Option<u64>,
    /// Samples read from the input, at its own rate.
    n_original: u64,
    n_read: u64,
    is_ended: bool,
}

enum Input {
    File { file: wav::File, at: u64 },
    Pipe(wav::Pipe<Box<dyn Read + Send + Sync>>),
    Decoder(Decoder),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("target", &self.target).field("n_read", &self.n_read).finish_non_exhaustive()
    }
}

impl Stream {
    /// Opens the file or named pipe `path`. A compressed file is checked and counted first, as
    /// [`Source::open`] does; a pipe is read as by [`Stream::live`].
    ///
    /// # Errors
    /// Those of [`Source::open`], except that a WAV file may be without samples.
    pub fn open(path: impl AsRef<Path>, target: Target) -> Result<Self> {
        let path = path.as_ref();
        if fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo()) {
            return Self::live(File::open(path).map_err(|error| Error::io("opening it", error))?, target);
        }
        if let Ok(file) = wav::File::open(path)
            && file.header().n_frames() == 0
        {
            return Self::new(Input::File { file, at: 0 }, target, Some(0));
        }
        let source = Source::open(path, target)?;
        let n_samples = Some(source.facts().n_samples);
        let input = match source.origin {
            Origin::Wav(file) => Input::File { file, at: 0 },
            Origin::Stream(decoder) => Input::Decoder(decoder),
        };
        Self::new(input, target, n_samples)
    }

    /// Reads `pipe` while it arrives: WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, AAC, AIFF or CAF, by
    /// its first bytes. A WAV header that does not declare its size is read to the end of the pipe.
    ///
    /// # Errors
    /// The format is unknown or needs a file, the start is damaged, or the pipe is empty or does not
    /// have the channel or a rate that is wanted.
    pub fn live(mut pipe: impl Read + Send + Sync + 'static, target: Target) -> Result<Self> {
        let mut magic = Vec::new();
        let start = pipe.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut magic);
        start.map_err(|error| Error::io("reading it", error))?;
        if magic.is_empty() {
            return Err(Error::truncated("the pipe is empty"));
        }
        if magic.get(4..8) == Some(b"ftyp") {
            return Err(needs_file());
        }
        let is_wav = wav::is_wav(&magic);
        let pipe: Box<dyn Read + Send + Sync> = Box::new(std::io::Cursor::new(magic).chain(pipe));
        let input = match is_wav {
            true => Input::Pipe(wav::Pipe::open(pipe)?),
            false => Input::Decoder(Decoder::live(pipe, target.channel)?),
        };
        Self::new(input, target, None)
    }

    fn new(input: Input, target: Target, n_samples: Option<u64>) -> Result<Self> {
        let (sample_rate, n_channels) = input.layout();
        target.check(n_channels, sample_rate)?;
        let resampling = match sample_rate == target.sample_rate {
            true => None,
            false => Some(Running::new(Ratio::new(sample_rate, target.sample_rate)?)),
        };
        let block_len = BLOCK as u64 * u64::from(sample_rate) / u64::from(target.sample_rate.max(1));
        let block = vec![0.0; block_len.clamp(1, BLOCK as u64) as usize];
        let (n_original, n_read, is_ended) = (0, 0, false);
        Ok(Self { input, target, resampling, block, sample_rate, n_channels, n_samples, n_original, n_read, is_ended })
    }

    /// Returns the next samples: those that are there, at least one, or none at the end.
    ///
    /// # Errors
    /// The input is damaged or ends before its declared end, a sample is infinite or NaN, or the
    /// read fails.
    pub fn read(&mut self) -> Result<&[f32]> {
        while !self.is_ended {
            let n = self.input.read(self.target, &mut self.block)?;
            let samples = &self.block[..n];
            check_finite(self.n_original, samples)
                .map_err(|error| error.with_hint("repair it: samples must be finite numbers"))?;
            self.n_original += n as u64;
            self.is_ended = n == 0;
            let n_ready = match &mut self.resampling {
                None => n,
                Some(running) if n == 0 => running.finish().len(),
                Some(running) => running.push(samples).len(),
            };
            self.n_read += n_ready as u64;
            if n_ready > 0 {
                return Ok(self.resampling.as_ref().map_or(&self.block[..n], Running::ready));
            }
        }
        Ok(&[])
    }

    /// Returns the number of samples per second and channel in the input.
    pub fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    /// Returns the number of channels in the input.
    pub fn n_channels(&self) -> usize {
        self.n_channels
    }

    /// Returns the number of samples that [`Stream::read`] returns in all, if known before the end.
    pub fn n_samples(&self) -> Option<u64> {
        self.n_samples
    }

    /// Returns the number of samples that [`Stream::read`] has returned.
    pub fn n_read(&self) -> u64 {
        self.n_read
    }

    /// Returns the memory that it takes, in bytes, besides that of a decoder of compressed audio.
    pub fn bytes(&self) -> u64 {
        let resampling = self.resampling.as_ref().map_or(0, |running| running.bytes(self.block.len()));
        (BLOCK * size_of::<f32>()) as u64 + PIPE_BYTES + resampling
    }

    /// Returns what was converted, repaired or found, in words for the user. Complete at the end.
    pub fn notes(&self) -> Vec<String> {
        let note = match &self.input {
            Input::File { file, .. } => file.header().note.clone(),
            Input::Pipe(pipe) => pipe.header().note.clone(),
            Input::Decoder(_) => None,
        };
        let (from, to) = (self.sample_rate, self.target.sample_rate);
        let resampled = (from != to).then(|| format!("resampled from {from} Hz to {to} Hz"));
        let channel = self.target.channel.note(self.n_channels);
        [note, channel, resampled, self.input.clipping().note()].into_iter().flatten().collect()
    }
}

impl Input {
    /// Returns the sample rate and channels.
    fn layout(&self) -> (u32, usize) {
        let header = match self {
            Self::File { file, .. } => file.header(),
            Self::Pipe(pipe) => pipe.header(),
            Self::Decoder(decoder) => return (decoder.sample_rate(), decoder.n_channels()),
        };
        (header.sample_rate, header.n_channels)
    }

    fn clipping(&self) -> &Clipping {
        match self {
            Self::File { file, .. } => file.clipping(),
            Self::Pipe(pipe) => pipe.clipping(),
            Self::Decoder(decoder) => decoder.clipping(),
        }
    }

    fn read(&mut self, target: Target, to: &mut [f32]) -> Result<usize> {
        match self {
            Self::File { file, at } => {
                let n = file.header().n_frames().saturating_sub(*at).min(to.len() as u64) as usize;
                file.read_mono(target.channel, *at, &mut to[..n])?;
                *at += n as u64;
                Ok(n)
            }
            Self::Pipe(pipe) => pipe.read_mono(target.channel, to),
            Self::Decoder(decoder) => decoder.read_next(to),
        }
    }
}
