//! Triangles over the bins of a transform.

use super::config::{Config, MelScale, Norm};
use crate::Result;

/// Returns the weights, `[F, K]`, in f64.
///
/// # Errors
/// A value is out of its bounds, or two contradict each other.
pub fn filterbank(config: &Config) -> Result<Vec<f64>> {
    config.check()?;
    let scale = config.mel_scale;
    let n_bins = config.n_fft / 2 + 1;
    let (low, high) = (scale.mel(config.f_min), scale.mel(config.top_hz()));
    let point = |i: usize| low + (high - low) * i as f64 / (config.n_mels + 1) as f64;
    let bin_hz = f64::from(config.sample_rate) / config.n_fft as f64;
    let mut weights = Vec::with_capacity(config.n_mels * n_bins);
    for f in 0..config.n_mels {
        // Kaldi's triangles are straight in mel, the others in Hz.
        let corner = |i: usize| if scale == MelScale::Kaldi { point(i) } else { scale.hz(point(i)) };
        let (left, centre, right) = (corner(f), corner(f + 1), corner(f + 2));
        let height = match config.norm {
            Norm::None => 1.0,
            Norm::Slaney => 2.0 / (scale.hz(point(f + 2)) - scale.hz(point(f))),
        };
        for k in 0..n_bins {
            let hz = k as f64 * bin_hz;
            let at = if scale == MelScale::Kaldi { scale.mel(hz) } else { hz };
            let weight = ((at - left) / (centre - left)).min((right - at) / (right - centre)).max(0.0);
            let has_none = scale == MelScale::Kaldi && 2 * k == config.n_fft;
            weights.push(if has_none { 0.0 } else { weight * height });
        }
    }
    Ok(weights)
}

impl MelScale {
    /// Returns `hz` in mel.
    pub fn mel(self, hz: f64) -> f64 {
        match self {
            Self::Htk => 2595.0 * (1.0 + hz / 700.0).log10(),
            Self::Kaldi => 1127.0 * (1.0 + hz / 700.0).ln(),
            Self::Slaney if hz < 1000.0 => hz / SLANEY_STEP,
            Self::Slaney => 15.0 + (hz / 1000.0).ln() / slaney_log_step(),
        }
    }

    /// Returns `mel` in Hz.
    pub fn hz(self, mel: f64) -> f64 {
        match self {
            Self::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            Self::Kaldi => 700.0 * ((mel / 1127.0).exp() - 1.0),
            Self::Slaney if mel < 15.0 => mel * SLANEY_STEP,
            Self::Slaney => 1000.0 * ((mel - 15.0) * slaney_log_step()).exp(),
        }
    }
}

const SLANEY_STEP: f64 = 200.0 / 3.0;

fn slaney_log_step() -> f64 {
    6.4f64.ln() / 27.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_invert() {
        for scale in [MelScale::Htk, MelScale::Slaney, MelScale::Kaldi] {
            for hz in [0.0, 20.0, 999.0, 1000.0, 1001.0, 8000.0] {
                assert!((scale.hz(scale.mel(hz)) - hz).abs() < 1e-9, "{scale:?} {hz}");
            }
        }
        assert!((MelScale::Slaney.mel(8000.0) - 45.245_640_471_924_965).abs() < 1e-9);
    }

    #[test]
    fn a_default_of_torchaudio_has_empty_filters() {
        let config = Config::preset("torchaudio").unwrap();
        let empty = filterbank(&config).unwrap().chunks(201).filter(|row| row.iter().all(|&w| w == 0.0)).count();
        assert_eq!(empty, 4);
    }

    #[test]
    fn kaldi_has_no_weight_at_half_the_rate() {
        let config = Config::preset("kaldi-fbank").unwrap();
        assert!(filterbank(&config).unwrap().chunks(257).all(|row| row[256] == 0.0));
    }
}
