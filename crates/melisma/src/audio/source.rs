//! Reads a file as mono audio at a given rate, at any sample position.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::Channel;
use super::decode::Decoder;
use super::file::{EXPECTED, open_regular};
use super::resample::{Ratio, Resampler};
use super::wav;
use crate::{Error, Result};

/// Output samples that are resampled at once.
const BLOCK: usize = 1 << 14;

/// The rates of recordings. Others are damage, or not audio.
const RECORDED_HZ: RangeInclusive<u32> = 1_000..=768_000;
const WAV_SUFFIXES: [&str; 5] = ["wav", "wave", "w64", "rf64", "bw64"];

/// The audio that is wanted from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// Samples per second.
    pub sample_rate: u32,
    /// The channel.
    pub channel: Channel,
    /// The rates that a file may have.
    pub rates: Rates,
}

/// The rates that a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rates {
    /// All that can be resampled.
    #[default]
    Any,
    /// 1 kHz to 768 kHz, as recordings have.
    Recorded,
}

impl Target {
    /// Returns the mix at `sample_rate` Hz, from any rate.
    pub fn new(sample_rate: u32) -> Self {
        Self { sample_rate, channel: Channel::Mix, rates: Rates::Any }
    }

    setters! {
        /// Sets the channel.
        pub fn with_channel(channel: Channel);
        /// Sets the rates that a file may have.
        pub fn with_rates(rates: Rates);
    }

    /// Checks a file of `n_channels` channels at `sample_rate` Hz.
    pub(super) fn check(self, n_channels: usize, sample_rate: u32) -> Result<()> {
        self.channel.check(n_channels)?;
        if self.rates == Rates::Recorded && !RECORDED_HZ.contains(&sample_rate) {
            let (least, most) = (RECORDED_HZ.start(), RECORDED_HZ.end());
            let message = format!("a sample rate of {sample_rate} Hz; {least} to {most} are read");
            return Err(Error::unsupported(message)
                .with_hint("correct the rate in its header, or convert it, as in `ffmpeg -i IN -ar 48000 OUT.wav`"));
        }
        Ok(())
    }
}

/// Properties of a file, known before its samples are read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
    pub element: SampleType,
    /// A defect of the file that was repaired.
    pub note: Option<String>,
}

/// The type of the samples that a source returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleType {
    /// 16-bit integers, as stored.
    I16,
    /// Floats: mixed down, resampled, or stored as another type.
    F32,
}

/// How samples are read from a file. The values do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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
    pub(super) origin: Origin,
    channel: Channel,
    resampling: Option<Resampling>,
    /// What samples are multiplied with.
    gain: Option<f32>,
    facts: Facts,
}

#[derive(Debug)]
pub(super) enum Origin {
    Wav(wav::File),
    Stream(Decoder),
}

#[derive(Debug)]
struct Resampling {
    ratio: Ratio,
    /// Samples at the original rate.
    n_samples: u64,
    table: Option<Arc<Resampler>>,
    /// Samples from `start` on, some of which the next read may need again.
    samples: Vec<f32>,
    start: i64,
}

impl Source {
    /// Opens `path` and returns samples as `target` wants them. The first bytes of the file decide
    /// its format, not its name. A compressed file is decoded once, to find its length and to check
    /// that it is complete.
    ///
    /// # Errors
    /// The file's format is unknown, the file is damaged or contradicts itself, it has no samples,
    /// it does not have the channel or a rate that is wanted, or it cannot be read.
    pub fn open(path: impl AsRef<Path>, target: Target) -> Result<Self> {
        let path = path.as_ref();
        Self::with_length(path, target, Reads::Direct, || Decoder::count(path))
    }

    /// Opens `path` and returns samples of `channel` at the file's own rate.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn unchanged(path: impl AsRef<Path>, channel: Channel) -> Result<Self> {
        let path = path.as_ref();
        let (origin, facts) = Origin::open(path, channel, Reads::Direct, || Decoder::count(path))?;
        channel.check(facts.n_channels)?;
        facts.check_samples()?;
        Ok(Self { origin, channel, resampling: None, gain: None, facts })
    }

    /// Reopens `path`, whose [`Facts::n_original`] is known.
    ///
    /// # Errors
    /// As [`Source::open`]; also if the file's length has changed.
    pub fn reopen(path: impl AsRef<Path>, target: Target, n_original: u64, reads: Reads) -> Result<Self> {
        let path = path.as_ref();
        let source = Self::with_length(path, target, reads, || Ok(n_original))?;
        if source.facts.n_original != n_original {
            let message = format!("{} samples are there, there were {n_original}", source.facts.n_original);
            return Err(Error::truncated(message));
        }
        Ok(source)
    }

    /// Opens `path`; `count` returns the length of a compressed file at its own rate.
    fn with_length(path: &Path, target: Target, reads: Reads, count: impl FnOnce() -> Result<u64>) -> Result<Self> {
        let Target { sample_rate, channel, .. } = target;
        let (origin, mut facts) = Origin::open(path, channel, reads, count)?;
        target.check(facts.n_channels, facts.sample_rate)?;
        facts.check_samples()?;
        let mut resampling = None;
        if facts.sample_rate != sample_rate {
            let ratio = Ratio::new(facts.sample_rate, sample_rate)?;
            let (n_samples, samples) = (facts.n_samples, Vec::new());
            resampling = Some(Resampling { ratio, n_samples, table: None, samples, start: 0 });
            facts.n_samples = ratio.len(facts.n_samples);
            facts.element = SampleType::F32;
        }
        Ok(Self { origin, channel, resampling, gain: None, facts })
    }

    /// Returns the properties of the file.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Multiplies all samples with `gain` from now on, which makes them floats.
    pub(crate) fn amplify(&mut self, gain: f32) {
        self.gain = Some(gain);
        self.facts.element = SampleType::F32;
    }

    /// Returns whether samples at any position can be read in about the same time.
    pub fn can_seek(&self) -> bool {
        matches!(self.origin, Origin::Wav(_))
    }

    /// Returns words about clipped samples among those that [`Source::read_f32`] read, in order,
    /// from the first one on.
    pub fn clipped(&self) -> Option<String> {
        match &self.origin {
            Origin::Wav(wav) => wav.clipping().note(),
            Origin::Stream(decoder) => decoder.clipping().note(),
        }
    }

    /// Reads 16-bit samples from `first` on. The source must be of [`SampleType::I16`].
    ///
    /// # Errors
    /// The file has become shorter, or the read fails.
    pub fn read_i16(&mut self, first: u64, to: &mut [i16]) -> Result<()> {
        match (&mut self.origin, self.facts.element) {
            (Origin::Wav(wav), SampleType::I16) => wav.read_i16(first, to),
            _ => Err(Error::invalid("this sound has no 16-bit samples")),
        }
    }

    /// Reads samples from `first` on.
    ///
    /// # Errors
    /// As [`Source::read_i16`]; also if a sample is infinite or NaN.
    pub fn read_f32(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        let end = first.saturating_add(to.len() as u64);
        if end > self.facts.n_samples {
            return Err(Error::truncated(format!("samples {first} to {end} of {}", self.facts.n_samples)));
        }
        match &mut self.resampling {
            None => self.origin.read_mono(self.channel, first, to)?,
            Some(resampling) => {
                for (index, to) in to.chunks_mut(BLOCK).enumerate() {
                    let read = |first, to: &mut [f32]| self.origin.read_mono(self.channel, first, to);
                    resampling.read(read, first + (index * BLOCK) as u64, to)?;
                }
            }
        }
        if let Some(gain) = self.gain {
            to.iter_mut().for_each(|sample| *sample *= gain);
        }
        check_finite(first, to)
    }
}

/// Fails if one of `samples`, from sample `first` on, is infinite or NaN.
pub(super) fn check_finite(first: u64, samples: &[f32]) -> Result<()> {
    match samples.iter().position(|sample| !sample.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::corrupt(format!("sample {} is {}", first + at as u64, samples[at]))),
    }
}

impl Facts {
    fn check_samples(&self) -> Result<()> {
        if self.n_samples == 0 { Err(Error::truncated("the file holds no samples")) } else { Ok(()) }
    }
}

impl Origin {
    /// Opens `path`, and its facts at its own rate; `count` returns the length of a compressed file.
    fn open(path: &Path, channel: Channel, reads: Reads, count: impl FnOnce() -> Result<u64>) -> Result<(Self, Facts)> {
        let file = open_regular(path)?;
        if is_wav(&file, path)? {
            let wav = wav::File::new(file, reads)?;
            let header = wav.header();
            let is_i16 = header.n_channels == 1 && header.coding.format() == wav::SampleFormat::S16;
            let facts = Facts {
                sample_rate: header.sample_rate,
                n_channels: header.n_channels,
                n_original: header.n_frames(),
                n_samples: header.n_frames(),
                element: if is_i16 { SampleType::I16 } else { SampleType::F32 },
                note: header.note.clone(),
            };
            Ok((Self::Wav(wav), facts))
        } else {
            let n_samples = count()?;
            let decoder = Decoder::open(path, channel)?;
            let (sample_rate, n_channels) = (decoder.sample_rate(), decoder.n_channels());
            let element = SampleType::F32;
            let facts = Facts { sample_rate, n_channels, n_original: n_samples, n_samples, element, note: None };
            Ok((Self::Stream(decoder), facts))
        }
    }

    fn read_mono(&mut self, channel: Channel, first: u64, to: &mut [f32]) -> Result<()> {
        match self {
            Self::Wav(wav) => wav.read_mono(channel, first, to),
            // The decoder was opened for its channel.
            Self::Stream(decoder) => decoder.read_mono(first, to),
        }
    }
}

impl Resampling {
    fn read(&mut self, mut read: impl FnMut(u64, &mut [f32]) -> Result<()>, first: u64, to: &mut [f32]) -> Result<()> {
        let table = self.table.get_or_insert_with(|| Resampler::get(self.ratio)).clone();
        let (start, len) = table.span(first, to.len());
        let n_kept = self.keep_from(start).min(len);
        self.samples.resize(len, 0.0);
        // Samples before and after the audio are silence.
        let new = &mut self.samples[n_kept..];
        let start_new = start + n_kept as i64;
        let before = usize::try_from(-start_new).unwrap_or(0).min(new.len());
        let from = start_new.max(0) as u64;
        let there = self.n_samples.saturating_sub(from).min((new.len() - before) as u64) as usize;
        let new = &mut new[before..before + there];
        if let Err(error) = read(from, new).and_then(|()| check_finite(from, new)) {
            self.samples.clear();
            return Err(error);
        }
        table.run(first, &self.samples, to);
        Ok(())
    }

    /// Drops the samples before `start` and returns the number of those from there on. A decoder
    /// would have to begin again to read them a second time.
    fn keep_from(&mut self, start: i64) -> usize {
        let passed = usize::try_from(start - self.start).unwrap_or(usize::MAX).min(self.samples.len());
        self.samples.drain(..passed);
        self.start = start;
        self.samples.len()
    }
}

/// Returns whether the file at `path` goes to the WAV reader, by its first bytes. A WAV file too short for any format
/// does: the reader reports it.
fn is_wav(file: &File, path: &Path) -> Result<bool> {
    let mut start = [0; 12];
    let n = file.read_at(&mut start, 0).map_err(|error| Error::io("reading it", error))?;
    let is_wav = wav::is_wav(&start[..n]);
    let is_name = |suffix: &OsStr| WAV_SUFFIXES.iter().any(|known| suffix.eq_ignore_ascii_case(known));
    match n < start.len() && !is_wav {
        true if path.extension().is_some_and(is_name) => Ok(true),
        true => Err(Error::unsupported("its audio format is not known").with_hint(EXPECTED)),
        false => Ok(is_wav),
    }
}
