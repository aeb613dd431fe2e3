//! Starting points, by name.

use super::config::{Config, Framing, Log, MelScale, Norm, OutputPrecision, Padding, Window};
use super::unknown::unknown;
use crate::Result;

/// Every preset and what it gives.
pub const PRESETS: &[(&str, &str)] = &[
    ("builder", "22.05 kHz, 1024/256, 80 filters, 20 log10, FP16: the dataset builder's"),
    ("torchaudio", "torchaudio.transforms.MelSpectrogram(16000)"),
    ("librosa", "librosa.feature.melspectrogram at 22.05 kHz"),
    ("librosa-db", "the same with power_to_db"),
    ("whisper-80", "Whisper's log-mel with 80 filters"),
    ("whisper-128", "Whisper's log-mel with 128 filters, for large-v3"),
    ("kaldi-fbank", "Kaldi's filterbank features with 80 filters, [T, F]"),
    ("hifigan", "the input of HiFi-GAN at 22.05 kHz, 80 filters up to 8 kHz"),
];

impl Config {
    /// Returns the preset called `name`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn preset(name: &str) -> Result<Self> {
        let base = torchaudio(name);
        Ok(match name {
            "torchaudio" => base,
            "builder" => Self {
                sample_rate: 22_050,
                n_fft: 1024,
                win_length: 1024,
                hop_length: 256,
                n_mels: 80,
                log: Log::Log10,
                multiplier: 20.0,
                dtype: OutputPrecision::F16,
                ..base
            },
            "librosa" => librosa(base),
            "librosa-db" => Self { log: Log::Log10, multiplier: 10.0, range: Some(80.0), ..librosa(base) },
            "whisper-80" | "whisper-128" => Self {
                hop_length: 160,
                framing: Framing::CenterDropLast,
                n_mels: if name == "whisper-80" { 80 } else { 128 },
                mel_scale: MelScale::Slaney,
                norm: Norm::Slaney,
                // (log10 + 4) / 4, with a range of 8 before the division.
                log: Log::Log10,
                multiplier: 0.25,
                offset: 1.0,
                range: Some(2.0),
                ..base
            },
            "kaldi-fbank" => Self {
                n_fft: 512,
                hop_length: 160,
                window: Window::Povey,
                framing: Framing::Snip,
                padding: Padding::Mirror,
                remove_dc: true,
                preemphasis: 0.97,
                input_scale: 32_768.0,
                n_mels: 80,
                f_min: 20.0,
                mel_scale: MelScale::Kaldi,
                log: Log::Ln,
                floor: f64::from(f32::EPSILON),
                ..base
            },
            "hifigan" => Self {
                sample_rate: 22_050,
                n_fft: 1024,
                win_length: 1024,
                hop_length: 256,
                framing: Framing::Same,
                power: 1,
                epsilon: 1e-9,
                n_mels: 80,
                f_max: Some(8000.0),
                mel_scale: MelScale::Slaney,
                norm: Norm::Slaney,
                log: Log::Ln,
                floor: 1e-5,
                ..base
            },
            _ => {
                let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
                return Err(unknown("preset", name, &names));
            }
        })
    }
}

fn torchaudio(name: &str) -> Config {
    Config {
        preset: name.to_owned(),
        sample_rate: 16_000,
        n_fft: 400,
        win_length: 400,
        hop_length: 200,
        window: Window::Hann,
        framing: Framing::Center,
        padding: Padding::Reflect,
        remove_dc: false,
        preemphasis: 0.0,
        input_scale: 1.0,
        power: 2,
        epsilon: 0.0,
        n_mels: 128,
        f_min: 0.0,
        f_max: None,
        mel_scale: MelScale::Htk,
        norm: Norm::None,
        log: Log::None,
        floor: 1e-10,
        multiplier: 1.0,
        offset: 0.0,
        range: None,
        dtype: OutputPrecision::F32,
    }
}

fn librosa(base: Config) -> Config {
    Config {
        sample_rate: 22_050,
        n_fft: 2048,
        win_length: 2048,
        hop_length: 512,
        padding: Padding::Constant,
        mel_scale: MelScale::Slaney,
        norm: Norm::Slaney,
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid() {
        for (name, _) in PRESETS {
            let config = Config::preset(name).unwrap();
            assert_eq!(config.preset, *name);
            config.kernel().unwrap();
        }
        let error = Config::preset("wisper-80").unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.starts_with("did you mean `whisper-80`?")));
    }
}
