//! The settings of tokens.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::length::Lengths;
use super::prepare::Preparation;
use crate::audio::{Channel, Rates, Target};
use crate::dataset::input::{Text, Texts};
use crate::dataset::row::Row;
use crate::snac::Model;
use crate::{Error, Result};

/// What determines the tokens of a dataset.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tokens {
    /// The model that encodes.
    pub model: Arc<Model>,
    /// The channel that is read.
    pub channel: Channel,
    /// Where the texts of the files are.
    pub texts: Texts,
    /// Whether the codes are decoded again and compared with the audio.
    pub check: Check,
    /// The lengths of the files that are used.
    pub lengths: Lengths,
    /// What happens to files without a text.
    pub untexted: Untexted,
    /// What is done with the audio of a file before it is encoded.
    pub preparation: Preparation,
}

/// What happens to files without a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Untexted {
    /// They have a row without a text.
    #[default]
    Keep,
    /// They are left out.
    LeaveOut,
}

impl Untexted {
    /// Returns why a file with this text is left out: the code of its failure, and a message.
    pub(super) fn refuse(self, texts: &Result<Vec<Text>>) -> Option<(&'static str, Error)> {
        let why = match (self, texts) {
            (Self::Keep, _) => return None,
            (Self::LeaveOut, Ok(texts)) if texts.first().is_some_and(|text| text.len > 0) => return None,
            (Self::LeaveOut, Ok(_)) => "no text belongs to this file".to_owned(),
            (Self::LeaveOut, Err(error)) => error.to_string(),
        };
        Some(("no-text", Error::invalid(why)))
    }
}

/// Whether codes are decoded again and compared with the audio.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Check {
    /// They are not.
    #[default]
    None,
    /// Each row has the signal-to-noise ratio and the distance of the log-mel spectrograms. Rows
    /// below `min_snr_db` are listed.
    Measure {
        /// The least signal-to-noise ratio, in dB.
        min_snr_db: Option<f64>,
    },
}

impl Tokens {
    /// Returns the codes of `model`, of all channels mixed, with the texts beside the files,
    /// unchecked.
    pub fn new(model: impl Into<Arc<Model>>) -> Self {
        Self {
            model: model.into(),
            channel: Channel::Mix,
            texts: Texts::Beside,
            check: Check::None,
            lengths: Lengths::default(),
            untexted: Untexted::Keep,
            preparation: Preparation::default(),
        }
    }

    setters! {
        /// Sets the channel that is read.
        pub fn with_channel(channel: Channel);
        /// Sets where the texts of the files are.
        pub fn with_texts(texts: Texts);
        /// Sets whether the codes are decoded again and compared with the audio.
        pub fn with_check(check: Check);
        /// Sets the lengths of the files that are used.
        pub fn with_lengths(lengths: Lengths);
        /// Sets what happens to files without a text.
        pub fn with_untexted(untexted: Untexted);
        /// Sets what is done with the audio of a file before it is encoded.
        pub fn with_preparation(preparation: Preparation);
    }

    /// Takes the settings of a corpus, its attribute `config`. The model and the place of the texts stay.
    ///
    /// # Errors
    /// These are not the settings of a corpus of recordings.
    pub fn like(self, config: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Settings {
            channel: String,
            measured: bool,
            #[serde(default)]
            requires_text: bool,
            #[serde(flatten)]
            lengths: Lengths,
            #[serde(flatten)]
            preparation: Preparation,
        }
        let wrong = |why: String| {
            Error::invalid(format!("these are not the settings of a corpus that was encoded of recordings: {why}"))
        };
        let found: Settings = serde_json::from_str(config).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            channel: Channel::from_name(&found.channel).ok_or_else(|| wrong(format!("channel {}", found.channel)))?,
            check: if found.measured { Check::Measure { min_snr_db: None } } else { Check::None },
            untexted: if found.requires_text { Untexted::LeaveOut } else { Untexted::Keep },
            lengths: found.lengths,
            preparation: found.preparation,
            ..self
        })
    }

    pub(in crate::dataset) fn target(&self) -> Target {
        Target { sample_rate: self.model.config().sampling_rate, channel: self.channel, rates: Rates::Recorded }
    }

    /// Returns the number of codes of a frame.
    pub(in crate::dataset) fn n_slots(&self) -> usize {
        self.model.config().n_slots()
    }

    /// Returns the number of frames of a file: its end is padded to whole attention windows.
    fn n_frames(&self, n_samples: u64) -> u64 {
        let config = self.model.config();
        let unit = config.padded_len() as u64;
        n_samples.div_ceil(unit) * (unit / config.frame_len() as u64)
    }

    pub(in crate::dataset) fn check_len(&self, n_samples: u64) -> Result<()> {
        let n_frames = self.n_frames(n_samples);
        match u32::try_from(n_frames) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unsupported(format!("{n_frames} frames; a file has at most {}", u32::MAX))),
        }
    }

    pub(in crate::dataset) fn row(&self, file: u32, first_frame: u64, n_samples: u64) -> Row {
        Row { file, start: first_frame, n_samples, valid_frames: self.n_frames(n_samples) as u32 }
    }

    /// Returns every setting that the values depend on.
    pub(in crate::dataset) fn config(&self) -> String {
        let config = self.model.config();
        let mut all = json!({
            "channel": self.channel.to_string(),
            "codebook_size": config.codebook_size,
            "frame_samples": config.frame_len(),
            "measured": self.check != Check::None,
            "model": self.model.hash(),
            "sample_rate": config.sampling_rate,
            "vq_strides": config.vq_strides,
        });
        // Files without filters are those of earlier versions, byte for byte.
        for (name, seconds) in [("min_seconds", self.lengths.min_seconds), ("max_seconds", self.lengths.max_seconds)] {
            if let Some(seconds) = seconds {
                all[name] = seconds.into();
            }
        }
        if self.untexted == Untexted::LeaveOut {
            all["requires_text"] = true.into();
        }
        let Preparation { trim, loudness } = self.preparation;
        if let Some(trim) = trim {
            all["trim"] = json!(trim);
        }
        if let Some(lufs) = loudness {
            all["loudness"] = lufs.into();
        }
        let kept = self.texts.kept();
        if !kept.is_empty() {
            all["kept"] = kept.into();
        }
        all.to_string()
    }
}
