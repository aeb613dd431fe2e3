//! Clips of a preset with their notes and parameters: training sets that can be made in parts and
//! resumed.
//!
//! Clip `i` has the seed `first_seed + i`, and with it its own key, tempo and timbre. Its audio is
//! `clip_00000i.wav`, its label `clip_00000i.json` beside it. The label is written first, so audio
//! without a label belongs to something else.

mod label;
mod making;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::bus::BusConfig;
use super::composer::{Style, compose};
use super::length::Length;
use super::level::{Level, balance};
use super::performance::Performance;
use super::recording::Recording;
use super::score::Score;
use super::setup::Setup;
use super::soundfont::{Sequence, SoundFont};
use super::take::Take;
use crate::audio::wav::SampleFormat;
use crate::audio::{Format, Layout, Meter, Writer};
use crate::output::{self, Existing, OutputFile};
use crate::{Error, Remedy, Result};

pub use making::Total;

/// A set of clips.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Clips {
    /// The style that every clip varies.
    pub style: Style,
    /// The seed of the first clip.
    pub first_seed: u64,
    /// The length of each clip in seconds.
    pub seconds: f64,
    /// Samples per second.
    pub sample_rate: u32,
    /// The samples in the files.
    pub format: SampleFormat,
    /// The loudness in LUFS, or `None` to leave the level as it is.
    pub loudness: Option<f64>,
    /// What plays instead of Melisma's instruments, on the CPU.
    pub soundfont: Option<SoundFont>,
    /// Where the files go.
    pub folder: PathBuf,
    /// Whether existing clips may be replaced.
    pub existing: Existing,
}

/// A composed clip, perhaps with recorded voices.
#[derive(Debug)]
pub struct Clip {
    index: u32,
    seed: u64,
    style: Style,
    /// Its notes.
    pub score: Score,
    recording: Option<Arc<Recording>>,
}

/// A rendered clip.
struct Rendered {
    level: Level,
    meter: Meter,
    n_samples: u64,
    n_voices: usize,
}

impl Clips {
    /// Plans clips of `seconds` in `folder`, from seed 0 on, at 48 kHz and their own level. Existing clips stay.
    pub fn new(style: Style, seconds: f64, folder: impl Into<PathBuf>) -> Self {
        Self {
            style,
            first_seed: 0,
            seconds,
            sample_rate: 48_000,
            format: SampleFormat::default(),
            loudness: None,
            soundfont: None,
            folder: folder.into(),
            existing: Existing::Refuse,
        }
    }

    setters! {
        /// Sets the seed of the first clip.
        pub fn with_first_seed(first_seed: u64);
        /// Sets the samples per second.
        pub fn with_sample_rate(sample_rate: u32);
        /// Sets the samples in the files.
        pub fn with_format(format: SampleFormat);
        /// Sets the loudness in LUFS.
        pub fn with_loudness(loudness: impl Into<Option<f64>>);
        /// Sets what plays instead of Melisma's instruments, on the CPU.
        pub fn with_soundfont(soundfont: impl Into<Option<SoundFont>>);
        /// Sets whether existing clips may be replaced.
        pub fn with_existing(existing: Existing);
    }

    /// Composes the clip `index`.
    ///
    /// # Errors
    /// Those of [`compose`].
    pub fn compose(&self, index: u32) -> Result<Clip> {
        let seed = self.first_seed.wrapping_add(index.into());
        let style = self.style.varied(seed);
        let score = compose(&style, seed, self.seconds)?;
        Ok(Clip { index, seed, style, score, recording: None })
    }

    /// Returns the part of a clip's score that is recorded.
    pub fn take<'a>(&self, score: &'a Score) -> Take<'a> {
        self.setup(1.0).take(score)
    }

    /// Returns how a clip is played at a gain.
    pub fn setup(&self, gain: f32) -> Setup {
        let bus = BusConfig::new(self.sample_rate).with_level(gain);
        let length = Length::Samples((self.seconds * f64::from(self.sample_rate)).round().max(1.0) as u64);
        Setup::new(bus).with_length(length)
    }

    fn audio(&self, clip: &Clip) -> PathBuf {
        self.folder.join(format!("clip_{:06}.wav", clip.index))
    }

    /// Returns the label of a clip before it is rendered.
    fn label(&self, clip: &Clip) -> Result<Value> {
        let Clip { seed, style, score, .. } = clip;
        let notes =
            serde_json::from_str::<Value>(&score.to_json()).map_err(|error| Error::invalid(error.to_string()))?;
        let audio = self.audio(clip);
        let mut label = json!({
            "audio": audio.file_name().unwrap_or_default().to_string_lossy(), "seed": seed, "seconds": self.seconds,
            "sample_rate_hz": self.sample_rate, "sample_format": self.format.name(),
            "loudness_target_lufs": self.loudness, "parameters": style, "score": notes,
        });
        if let Some(font) = &self.soundfont {
            label[label::FONT_HASH] = font.hash().into();
        }
        Ok(label)
    }

    /// Returns whether an earlier run made the clip, according to its label and the hash in it. A
    /// different file with that name is an error.
    fn is_there(&self, clip: &Clip) -> Result<bool> {
        let audio = self.audio(clip);
        if self.existing == Existing::Replace || !audio.exists() {
            return Ok(false);
        }
        let beside = audio.with_extension("json");
        if !beside.exists() {
            return Err(Error::invalid(format!("{}: the file exists already, without a label", audio.display()))
                .with_hint("choose another folder")
                .or_hint(Remedy::Replace));
        }
        label::check(&beside, &audio, &self.label(clip)?)?;
        Ok(true)
    }

    /// Renders one clip and writes its label.
    fn finish(&self, clip: &Clip) -> Result<Total> {
        let path = self.audio(clip);
        let (rendered, mut file) = self.render(clip, &path)?;
        let mut label = self.label(clip)?;
        label["gain_db"] = rendered.level.gain_db().into();
        label["loudness_lufs"] = rendered.meter.integrated().into();
        label["peak_dbtp"] = rendered.meter.peak_dbtp().into();
        label[label::HASH] = label::hash(file.reader()?, &path)?.into();
        label::write(&path.with_extension("json"), &label, self.existing)?;
        file.commit()?;
        let Rendered { n_samples, n_voices, .. } = rendered;
        Ok(Total { kept: 0, notes: clip.score.notes.len(), samples: n_samples, voices: n_voices })
    }

    /// Plays a clip into a file that has no name yet.
    fn render(&self, clip: &Clip, path: &Path) -> Result<(Rendered, OutputFile)> {
        let with_font = |font| Ok::<_, Error>((Sequence::from_score(&clip.score)?, font));
        let sampled = self.soundfont.as_ref().map(with_font).transpose()?;
        let play = |setup| match (&sampled, &clip.recording) {
            (Some((sequence, font)), _) => Performance::sampled(sequence, font, setup),
            (None, Some(recording)) => Performance::recorded(&clip.score, setup, Arc::clone(recording)),
            (None, None) => Performance::new(&clip.score, setup),
        };
        let level = match self.loudness {
            None => Level::UNCHANGED,
            Some(target) => balance(self.setup(1.0), target, |setup| self.listen(play(setup)?, |_| Ok(())))?,
        };
        let layout = Layout { sample_rate: self.sample_rate, n_channels: 2 };
        let named = |error| output::named(path, error);
        let file = OutputFile::create(path, self.existing)?;
        let mut writer = Writer::new(file, Format::Wav(self.format), layout).map_err(named)?;
        let mut n_samples = 0;
        let mut performance = play(self.setup(level.gain))?;
        let meter = self.listen(&mut performance, |samples| {
            n_samples += samples.len() as u64 / 2;
            writer.write(samples).map_err(named)
        })?;
        let n_voices = performance.most_voices();
        Ok((Rendered { level, meter, n_samples, n_voices }, writer.seal().map_err(named)?))
    }

    /// Plays to the end, and hands interleaved samples to `take`.
    fn listen(
        &self,
        mut performance: impl std::borrow::BorrowMut<Performance>,
        mut take: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<Meter> {
        let mut meter = Meter::new(self.sample_rate);
        let mut samples = Vec::new();
        while let Some(block) = performance.borrow_mut().next_block(None)? {
            meter.push(block.left, block.right);
            samples.clear();
            samples.extend(block.left.iter().zip(block.right).flat_map(|(left, right)| [*left, *right]));
            take(&samples)?;
        }
        Ok(meter)
    }
}
