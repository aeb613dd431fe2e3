//! Reads a file as mono audio at a given rate, at any sample position.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::decode::Decoder;
use super::file::open_regular;
use super::resample::{Ratio, Resampler};
use super::wav;
use crate::{Error, Result};

/// Output samples that are resampled at once.
const BLOCK: usize = 1 << 14;

/// Properties of a file, known before its samples are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Samples per second and channel in the file.
    pub sample_rate: u32,
    /// Channels in the file.
    pub n_channels: usize,
    /// Samples per channel in the file.
    pub n_original: u64,
    /// Samples that [`Source`] returns, at the requested rate.
    pub n_samples: u64,
    /// Whether samples are 16-bit integers that need no conversion.
    pub element: Element,
    /// A defect of the file that was repaired.
    pub note: Option<String>,
}

/// The type of the samples that a source returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 16-bit integers, as stored.
    I16,
    /// Floats: mixed down, resampled, or stored as another type.
    F32,
}

/// How samples are read from a file. The values do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
    /// Straight into their destination, if they need no conversion.
    #[default]
    Direct,
    /// Always through a buffer.
    Buffered,
    /// From a map of the file, with read-ahead by the system.
    Mapped,
}

/// An open file.
#[derive(Debug)]
pub struct Source {
    origin: Origin,
    resampling: Option<Resampling>,
    facts: Facts,
}

#[derive(Debug)]
enum Origin {
    Wav(wav::File),
    Stream(Decoder),
}

#[derive(Debug)]
struct Resampling {
    ratio: Ratio,
    /// Samples at the original rate.
    n_samples: u64,
    table: Option<Arc<Resampler>>,
    samples: Vec<f32>,
}

impl Source {
    /// Opens `path` and returns samples at `sample_rate`. The first bytes of the file decide its
    /// format, not its name. A compressed file is decoded once, to find its length and to check
    /// that it is complete.
    ///
    /// # Errors
    /// The file's format is unknown, the file is damaged or contradicts itself, it has no samples,
    /// or it cannot be read.
    pub fn open(path: &Path, sample_rate: u32) -> Result<Self> {
        Self::with_length(path, sample_rate, Reads::Direct, || Decoder::count(path))
    }

    /// Reopens `path`, whose [`Facts::n_original`] is known.
    ///
    /// # Errors
    /// As [`Source::open`]; also if the file's length has changed.
    pub fn reopen(path: &Path, sample_rate: u32, n_original: u64, reads: Reads) -> Result<Self> {
        let source = Self::with_length(path, sample_rate, reads, || Ok(n_original))?;
        if source.facts.n_original != n_original {
            let message = format!("{} samples are there, there were {n_original}", source.facts.n_original);
            return Err(Error::truncated(message));
        }
        Ok(source)
    }

    /// Opens `path`; `count` returns the length of a compressed file at its own rate.
    fn with_length(path: &Path, sample_rate: u32, reads: Reads, count: impl FnOnce() -> Result<u64>) -> Result<Self> {
        let file = open_regular(path)?;
        let (origin, mut facts) = if is_wav(&file) {
            let wav = wav::File::new(file, reads)?;
            let header = wav.header();
            let is_i16 = header.n_channels == 1 && header.coding.format() == wav::SampleFormat::S16;
            let facts = Facts {
                sample_rate: header.sample_rate,
                n_channels: header.n_channels,
                n_original: header.n_frames(),
                n_samples: header.n_frames(),
                element: if is_i16 { Element::I16 } else { Element::F32 },
                note: header.note.clone(),
            };
            (Origin::Wav(wav), facts)
        } else {
            let n_samples = count()?;
            let decoder = Decoder::open(path)?;
            let (sample_rate, n_channels) = (decoder.sample_rate(), decoder.n_channels());
            let element = Element::F32;
            let facts = Facts { sample_rate, n_channels, n_original: n_samples, n_samples, element, note: None };
            (Origin::Stream(decoder), facts)
        };
        if facts.n_samples == 0 {
            return Err(Error::truncated("the file holds no samples"));
        }
        let mut resampling = None;
        if facts.sample_rate != sample_rate {
            let ratio = Ratio::new(facts.sample_rate, sample_rate)?;
            resampling = Some(Resampling { ratio, n_samples: facts.n_samples, table: None, samples: Vec::new() });
            facts.n_samples = ratio.len(facts.n_samples);
            facts.element = Element::F32;
        }
        Ok(Self { origin, resampling, facts })
    }

    /// The properties of the file.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether samples at any position can be read in about the same time.
    pub fn can_seek(&self) -> bool {
        matches!(self.origin, Origin::Wav(_))
    }

    /// Reads 16-bit samples from `first` on. The source must be of [`Element::I16`].
    ///
    /// # Errors
    /// The file has become shorter, or the read fails.
    pub fn read_i16(&mut self, first: u64, to: &mut [i16]) -> Result<()> {
        match (&mut self.origin, self.facts.element) {
            (Origin::Wav(wav), Element::I16) => wav.read_i16(first, to),
            _ => Err(Error::invalid("this sound has no 16-bit samples")),
        }
    }

    /// Reads samples from `first` on.
    ///
    /// # Errors
    /// As [`Source::read_i16`]; also if a sample is infinite or NaN.
    pub fn read_f32(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        if first.saturating_add(to.len() as u64) > self.facts.n_samples {
            let message = format!("samples {first} to {} of {}", first + to.len() as u64, self.facts.n_samples);
            return Err(Error::truncated(message));
        }
        match &mut self.resampling {
            None => self.origin.read_mono(first, to)?,
            Some(resampling) => {
                for (index, to) in to.chunks_mut(BLOCK).enumerate() {
                    resampling.read(&mut self.origin, first + (index * BLOCK) as u64, to)?;
                }
            }
        }
        match to.iter().position(|sample| !sample.is_finite()) {
            Some(at) => Err(Error::corrupt(format!("sample {} is {}", first + at as u64, to[at]))),
            None => Ok(()),
        }
    }
}

impl Origin {
    fn read_mono(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        match self {
            Self::Wav(wav) => wav.read_mono(first, to),
            Self::Stream(decoder) => decoder.read_mono(first, to),
        }
    }
}

impl Resampling {
    fn read(&mut self, origin: &mut Origin, first: u64, to: &mut [f32]) -> Result<()> {
        let table = self.table.get_or_insert_with(|| Resampler::get(self.ratio));
        let (start, len) = table.span(first, to.len());
        self.samples.clear();
        self.samples.resize(len, 0.0);
        // Samples before and after the audio are silence.
        let before = usize::try_from(-start).unwrap_or(0).min(len);
        let from = start.max(0) as u64;
        let there = self.n_samples.saturating_sub(from).min((len - before) as u64) as usize;
        origin.read_mono(from, &mut self.samples[before..before + there])?;
        table.run(first, &self.samples, to);
        Ok(())
    }
}

fn is_wav(file: &File) -> bool {
    let mut start = [0; 12];
    // A file too short for any format goes to the WAV reader, which reports it.
    file.read_exact_at(&mut start, 0).is_err() || matches!(&start[..4], b"RIFF" | b"RIFX" | b"RF64" | b"BW64" | b"riff")
}
