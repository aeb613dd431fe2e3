//! The settings of a spectrogram: one value per key.

use melisma_kernels::signal::mel::Order;
use serde::{Deserialize, Serialize};

use crate::text::count;
use crate::{Error, Remedy, Result};

/// The mel scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MelScale {
    /// 2595 log10(1 + f / 700)
    Htk,
    /// Linear below 1 kHz, logarithmic above, as in Slaney's toolbox.
    Slaney,
    /// 1127 ln(1 + f / 700), with triangles that are straight in mel; the bin at half the rate has no weight.
    Kaldi,
}

/// How filters are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Norm {
    /// To a height of 1.
    None,
    /// To an equal area: 2 / (upper - lower frequency).
    Slaney,
}

/// The window function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Window {
    /// Periodic Hann.
    Hann,
    /// Periodic Hamming.
    Hamming,
    /// Symmetric Hann to the power of 0.85.
    Povey,
    /// Ones.
    Rectangular,
}

/// Where frames lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Framing {
    /// Frame t is centred on sample t hop; padded by n_fft / 2 on both sides.
    Center,
    /// As `center`, without the last frame.
    CenterDropLast,
    /// Padded by (n_fft - hop) / 2 on both sides, so that there is one frame per whole hop.
    Same,
    /// Only whole frames; no padding.
    Snip,
    /// Kaldi's `snip_edges=False`: one frame per hop, centred in it.
    HopCenter,
}

/// What lies beyond the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// The samples backwards, without the outermost.
    Reflect,
    /// Zeros.
    Constant,
    /// The samples backwards, with the outermost.
    Mirror,
}

/// The logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Log {
    /// None: values stay linear.
    None,
    /// Natural.
    Ln,
    /// To the base of 10.
    Log10,
}

/// The precision of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OutputPrecision {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

impl OutputPrecision {
    /// Returns the bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// All values; start from [`Config::preset`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The preset that the values started from.
    pub preset: String,
    /// In Hz; sound of another rate is resampled.
    pub sample_rate: u32,
    /// Points of the transform.
    pub n_fft: usize,
    /// Samples of the window, at most `n_fft`.
    pub win_length: usize,
    /// Samples from frame to frame.
    pub hop_length: usize,
    /// The window function.
    pub window: Window,
    /// Where frames lie.
    pub framing: Framing,
    /// What lies beyond the ends.
    pub padding: Padding,
    /// Whether each frame loses its mean.
    pub remove_dc: bool,
    /// The factor of the difference filter; 0 for none.
    pub preemphasis: f64,
    /// Samples are multiplied by this; full scale is 1 before it.
    pub input_scale: f64,
    /// 1 for magnitudes, 2 for powers.
    pub power: u8,
    /// Added to the power below the root of a magnitude.
    pub epsilon: f64,
    /// Filters.
    pub n_mels: usize,
    /// Where the lowest filter begins, in Hz.
    pub f_min: f64,
    /// Where the highest filter ends, in Hz; half the rate when left out.
    pub f_max: Option<f64>,
    /// The mel scale.
    pub mel_scale: MelScale,
    /// How filters are scaled.
    pub norm: Norm,
    /// The logarithm.
    pub log: Log,
    /// Values are at least this before the logarithm.
    pub floor: f64,
    /// Times the logarithm; called `db_mult` too.
    pub multiplier: f64,
    /// Added to the result.
    pub offset: f64,
    /// How far below its largest value a result may reach; called `top_db` too.
    pub range: Option<f64>,
    /// The precision of the values.
    pub dtype: OutputPrecision,
}

impl Config {
    /// Returns the frequency at which the highest filter ends.
    pub fn top_hz(&self) -> f64 {
        self.f_max.unwrap_or(f64::from(self.sample_rate) / 2.0)
    }

    /// Returns the number of samples of padding before the first sample.
    pub fn pad(&self) -> usize {
        match self.framing {
            Framing::Center | Framing::CenterDropLast => self.n_fft / 2,
            Framing::Same => self.n_fft.saturating_sub(self.hop_length) / 2,
            Framing::Snip => 0,
            Framing::HopCenter => self.win_length.saturating_sub(self.hop_length) / 2,
        }
    }

    /// Returns the number of samples that a frame covers.
    pub(super) fn frame_len(&self) -> usize {
        match self.framing {
            Framing::Snip | Framing::HopCenter => self.win_length,
            _ => self.n_fft,
        }
    }

    /// Returns the number of frames of `n_samples` samples.
    ///
    /// # Errors
    /// The sound is too short to be reflected at its ends.
    pub fn n_frames(&self, n_samples: usize) -> Result<usize> {
        let pad = self.pad();
        if self.padding == Padding::Reflect && pad > 0 && n_samples <= pad {
            return Err(Error::invalid(format!(
                "{}: too few to reflect {pad} of them; at least {} are needed",
                count(n_samples as u64, "sample"),
                pad.saturating_add(1)
            ))
            .with_hint(Remedy::set_mel("padding", "constant"))
            .or_hint("leave the file out"));
        }
        let (padded, hop_len) = (n_samples.saturating_add(pad.saturating_mul(2)), self.hop_length.max(1));
        let whole = padded.checked_sub(self.frame_len()).map_or(0, |rest| (rest / hop_len).saturating_add(1));
        Ok(match self.framing {
            Framing::CenterDropLast => whole.saturating_sub(1),
            Framing::HopCenter => n_samples.saturating_add(hop_len / 2) / hop_len,
            _ => whole,
        })
    }

    /// Returns `[F, T]`, but `[T, F]` for Kaldi.
    #[doc(hidden)]
    pub fn order(&self) -> Order {
        if self.mel_scale == MelScale::Kaldi { Order::TimeFilter } else { Order::FilterTime }
    }

    /// Returns the shape of a spectrogram of `n_frames` frames.
    pub fn shape(&self, n_frames: usize) -> [usize; 2] {
        match self.order() {
            Order::FilterTime => [self.n_mels, n_frames],
            Order::TimeFilter => [n_frames, self.n_mels],
        }
    }
}

impl Window {
    /// Returns the coefficient `n` of a window of `len`.
    pub fn at(self, n: usize, len: usize) -> f64 {
        let turn = |n: usize, len: usize| (std::f64::consts::TAU * n as f64 / len as f64).cos();
        match self {
            Self::Hann => 0.5 - 0.5 * turn(n, len),
            Self::Hamming => 0.54 - 0.46 * turn(n, len),
            Self::Povey => (0.5 - 0.5 * turn(n, len.saturating_sub(1).max(1))).powf(0.85),
            Self::Rectangular => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Kaldi counts them with `--snip-edges=false`.
    #[test]
    fn frames_at_the_centres_of_hops_are_rounded_to_nearest() {
        let config = Config { framing: Framing::HopCenter, ..Config::preset("kaldi-fbank").unwrap() };
        assert_eq!(config.hop_length, 160);
        let n_frames = [0, 79, 80, 160, 239, 240, 16_000].map(|n_samples| config.n_frames(n_samples).unwrap());
        assert_eq!(n_frames, [0, 0, 1, 1, 1, 2, 100]);
    }
}
