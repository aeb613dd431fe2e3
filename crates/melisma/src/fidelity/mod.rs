//! How close decoded audio is to its original.
//!
//! x is the original, one channel at the codec's rate, after mixing down and resampling. y is the
//! decoded audio, cut to the length of x: a codec pads its last frame.
//!
//! - Signal-to-noise ratio in dB: 10 log10(Σ x² / Σ (x - y)²).
//! - Log-mel distance: the mean of |log10 X - log10 Y| over all frames and filters. X and Y are mel
//!   spectrograms of the preset `builder` (power in 80 HTK filters up to half the rate, Hann windows
//!   of 1024 samples every 256, at least 1e-10) at the codec's rate, without the factor 20 and with
//!   frames from the first sample on ([`Framing::Snip`]). Zeros complete the last frame.
//!
//! ```
//! use melisma::fidelity::Meter;
//!
//! let mut meter = Meter::new(24_000)?;
//! meter.original(&[0.5; 4096])?;
//! meter.decoded(&[0.45; 4096])?;
//! let fidelity = meter.finish()?;
//! assert!((fidelity.snr_db.unwrap_or(0.0) - 20.0).abs() < 1e-3);
//! assert!(fidelity.log_mel_distance.is_some_and(|distance| distance < 0.2));
//! # Ok::<(), melisma::Error>(())
//! ```

use std::fmt;

use melisma_kernels::Budget;

use crate::mel::{Config, Framing, OutputPrecision, Transform};
use crate::runtime::device::Device;
use crate::runtime::memory::{Needed, Space};
use crate::{Context, Result};

/// Frames that are transformed at once.
const BLOCK_FRAMES: usize = 64;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Fidelity {
    /// The signal-to-noise ratio in dB; infinite if all samples are equal, `None` if the original is
    /// silent or empty.
    pub snr_db: Option<f64>,
    /// The log-mel distance; `None` if the original is empty.
    pub log_mel_distance: Option<f64>,
    /// Samples of the original.
    pub n_samples: u64,
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.snr_db {
            Some(snr_db) => write!(f, "{snr_db:.2} dB signal-to-noise")?,
            None => write!(f, "no signal-to-noise ratio of silence")?,
        }
        match self.log_mel_distance {
            Some(distance) => write!(f, ", log-mel distance {distance:.4}"),
            None => Ok(()),
        }
    }
}

/// Compares two signals that arrive in pieces of any length. Holds only the samples that one of them
/// is ahead by, and less than a block. The result does not depend on how the signals were cut.
#[derive(Debug)]
pub struct Meter {
    transform: Transform,
    /// Samples of the two signals that are not compared yet.
    original: Vec<f32>,
    decoded: Vec<f32>,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    n_samples: u64,
    signal: f64,
    noise: f64,
    n_values: u64,
    distance: f64,
    /// Samples at the start of those that wait which the ratio has counted: frames overlap.
    n_counted: usize,
}

impl Meter {
    /// Creates a meter on the CPU for audio at `sample_rate` Hz.
    ///
    /// # Errors
    /// Those of [`Context::cpu`].
    pub fn new(sample_rate: u32) -> Result<Self> {
        Self::new_in(&Context::cpu()?, sample_rate)
    }

    /// Creates a meter for audio at `sample_rate` Hz.
    ///
    /// # Errors
    /// The budget refuses, or the device fails.
    pub fn new_in(context: &Context, sample_rate: u32) -> Result<Self> {
        let config = Config {
            sample_rate,
            framing: Framing::Snip,
            multiplier: 1.0,
            dtype: OutputPrecision::F32,
            ..Config::preset("builder")?
        };
        let transform = Transform::new_in(context, config)?;
        let (original, decoded) = (Vec::new(), Vec::new());
        Ok(Self { transform, original, decoded, sums: Sums::default() })
    }

    /// Returns the memory that a meter takes on `device`, its queue's scratch included, besides the samples that one
    /// signal is ahead by. A trial in `budget` measures it; nothing else may use the budget meanwhile.
    ///
    /// # Errors
    /// The budget refuses, or the device fails.
    pub fn needed(device: &Device, budget: &Budget, sample_rate: u32) -> Result<Needed> {
        let (watch, before) = (budget.watch(), Space::ALL.map(|space| budget.usage(space).now));
        let mut meter = Self::new_in(&Context::on(device.clone(), budget.clone())?, sample_rate)?;
        let silence = vec![0.0; meter.block_len()];
        meter.original(&silence)?;
        meter.decoded(&silence)?;
        let peak = |space: Space| watch.peak(space) - before[space as usize];
        // Both signals, and their spectra as floats.
        let samples = (4 * size_of::<f32>() * silence.len()) as u64;
        let host = peak(Space::Host) + peak(Space::Pinned) + samples;
        Ok(Needed { host, device: peak(Space::Device) })
    }

    /// Returns the number of samples of a block of frames.
    fn block_len(&self) -> usize {
        let Config { win_length, hop_length, .. } = self.transform.config();
        win_length + (BLOCK_FRAMES - 1) * hop_length
    }

    /// Adds samples of the original.
    ///
    /// # Errors
    /// The device fails.
    pub fn original(&mut self, samples: &[f32]) -> Result<()> {
        self.original.extend_from_slice(samples);
        self.compare()
    }

    /// Adds decoded samples.
    ///
    /// # Errors
    /// The device fails.
    pub fn decoded(&mut self, samples: &[f32]) -> Result<()> {
        self.decoded.extend_from_slice(samples);
        self.compare()
    }

    /// Returns the result. The meter then starts again. Missing decoded samples count as zeros.
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(&mut self) -> Result<Fidelity> {
        let n = self.original.len();
        self.decoded.resize(n, 0.0);
        self.sums.add_samples(&self.original, &self.decoded);
        // Samples that the last whole frame had already are not a frame of their own.
        let (window, hop) = (self.transform.config().win_length, self.transform.config().hop_length);
        if n > 0 && (self.sums.n_values == 0 || n > window - hop) {
            let len = window + n.saturating_sub(window).next_multiple_of(hop);
            self.original.resize(len, 0.0);
            self.decoded.resize(len, 0.0);
            self.add_frames(len)?;
        }
        self.original.clear();
        self.decoded.clear();
        Ok(std::mem::take(&mut self.sums).fidelity())
    }

    /// Compares whole blocks.
    fn compare(&mut self) -> Result<()> {
        let len = self.block_len();
        while self.original.len().min(self.decoded.len()) >= len {
            let passed = BLOCK_FRAMES * self.transform.config().hop_length;
            self.sums.add_samples(&self.original[..passed], &self.decoded[..passed]);
            self.add_frames(len)?;
            self.original.drain(..passed);
            self.decoded.drain(..passed);
            self.sums.n_counted = 0;
        }
        Ok(())
    }

    /// Compares the frames of the first `len` samples.
    fn add_frames(&mut self, len: usize) -> Result<()> {
        let values = |samples: &[f32]| Ok(self.transform.run(&samples[..len])?.values.to_f32());
        let (original, decoded): (Vec<f32>, Vec<f32>) = (values(&self.original)?, values(&self.decoded)?);
        let n_frames = original.len() / self.transform.config().n_mels;
        // `[F, T]`: frame by frame, so that the order does not depend on the number of frames.
        for frame in 0..n_frames {
            let filters = original.iter().zip(&decoded).skip(frame).step_by(n_frames);
            self.sums.distance += filters.map(|(&a, &b)| f64::from((a - b).abs())).sum::<f64>();
        }
        self.sums.n_values += original.len() as u64;
        Ok(())
    }
}

impl Sums {
    fn add_samples(&mut self, original: &[f32], decoded: &[f32]) {
        for (&x, &y) in original.iter().zip(decoded).skip(self.n_counted) {
            let (x, y) = (f64::from(x), f64::from(y));
            self.signal += x * x;
            self.noise += (x - y) * (x - y);
        }
        self.n_samples += (original.len() - self.n_counted) as u64;
        self.n_counted = original.len();
    }

    fn fidelity(self) -> Fidelity {
        let Self { n_samples, signal, noise, n_values, distance, .. } = self;
        Fidelity {
            snr_db: (signal > 0.0).then(|| 10.0 * (signal / noise).log10()),
            log_mel_distance: (n_values > 0).then(|| distance / n_values as f64),
            n_samples,
        }
    }
}

#[cfg(test)]
mod tests;
