//! Sound from a file as one channel at one rate, by the place of its samples.

use std::path::Path;

use super::wav;
use crate::{Error, Kind, Result};

/// What is known of a file before its samples are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Samples per second and channel in the file.
    pub sample_rate: u32,
    /// Channels in the file.
    pub n_channels: usize,
    /// Samples that [`Source`] gives, at the rate asked for.
    pub n_samples: u64,
    /// Whether samples are 16-bit integers that need no arithmetic.
    pub element: Element,
    /// What was wrong with the file and repaired.
    pub note: Option<String>,
}

/// The type in which samples come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// As stored.
    I16,
    /// Mixed down, resampled, or of another type in the file.
    F32,
}

/// An open file.
#[derive(Debug)]
pub struct Source {
    wav: wav::File,
    facts: Facts,
}

impl Source {
    /// Opens `path`, to give samples at `sample_rate`.
    ///
    /// # Errors
    /// The file is no sound that is known, contradicts itself, holds no samples, or cannot be read.
    pub fn open(path: &Path, sample_rate: u32) -> Result<Self> {
        let wav = wav::File::open(path)?;
        let header = wav.header();
        if header.n_frames() == 0 {
            return Err(Error::new(Kind::Truncated, "the file holds no samples"));
        }
        if header.sample_rate != sample_rate {
            return Err(Error::unsupported(format!("{} Hz instead of {sample_rate} Hz", header.sample_rate)));
        }
        let is_i16 = header.n_channels == 1 && header.coding.format() == wav::SampleFormat::S16;
        let facts = Facts {
            sample_rate: header.sample_rate,
            n_channels: header.n_channels,
            n_samples: header.n_frames(),
            element: if is_i16 { Element::I16 } else { Element::F32 },
            note: header.note.clone(),
        };
        Ok(Self { wav, facts })
    }

    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Whether samples can be read at any place in about the same time.
    pub fn can_seek(&self) -> bool {
        true
    }

    /// Reads 16-bit samples from `first` on, of a source of [`Element::I16`].
    ///
    /// # Errors
    /// The file has become shorter, or the system refuses.
    pub fn read_i16(&mut self, first: u64, to: &mut [i16]) -> Result<()> {
        self.wav.read_i16(first, to)
    }

    /// Reads samples from `first` on.
    ///
    /// # Errors
    /// As [`Source::read_i16`]; also a sample that is infinite or NaN.
    pub fn read_f32(&mut self, first: u64, to: &mut [f32]) -> Result<()> {
        self.wav.read_mono(first, to)?;
        match to.iter().position(|sample| !sample.is_finite()) {
            Some(at) => Err(not_finite(first + at as u64, to[at])),
            None => Ok(()),
        }
    }
}

fn not_finite(at: u64, sample: f32) -> Error {
    Error::new(Kind::Corrupt, format!("sample {at} is {sample}"))
}
