//! Mel frames of samples that come in pieces: those of the whole clip, byte for byte.

use melisma::config::DeviceRequest;
use melisma::mel::{Config, Framing, Log, Norm, Order, OutputPrecision, Padding, Transform};
use melisma::text::base64;
use melisma::{Context, Error, Result};
use serde_json::{Value, json};

/// The decibels of byte 0.
const LOWEST_DB: f64 = -100.0;
/// Decibels from one byte to the next.
const STEP_DB: f32 = 0.4;

/// The frames of one stream.
#[derive(Debug)]
pub(super) struct Frames {
    /// Where frames lie.
    config: Config,
    /// Transforms whole frames; the samples beyond both ends are added here.
    transform: Transform,
    /// The samples from the next frame's start on.
    waiting: Vec<f32>,
    /// The last samples, which are reflected at the end.
    tail: Vec<f32>,
    n_samples: usize,
    n_frames: usize,
}

impl Frames {
    pub(super) fn new(preset: Config) -> Result<Self> {
        let config = decibels(preset);
        let context = Context::builder().with_device(DeviceRequest::Cpu).with_threads(1).build()?;
        let mut snipped = config.clone();
        snipped.framing = Framing::Snip;
        let transform = Transform::new_in(&context, snipped)?;
        Ok(Self { config, transform, waiting: Vec::new(), tail: Vec::new(), n_samples: 0, n_frames: 0 })
    }

    pub(super) fn push(&mut self, samples: &[f32]) -> Result<Option<Value>> {
        let was_begun = self.is_begun();
        self.n_samples += samples.len();
        self.waiting.extend_from_slice(samples);
        self.tail.extend_from_slice(samples);
        self.tail.drain(..self.tail.len().saturating_sub(self.config.pad() + 1));
        if !self.is_begun() {
            return Ok(None);
        }
        if !was_begun {
            let mut before = self.beyond(self.waiting.iter());
            before.reverse();
            self.waiting.splice(..0, before);
        }
        self.take(usize::MAX)
    }

    pub(super) fn finish(mut self) -> Result<Option<Value>> {
        if !self.is_begun() {
            let (preset, least) = (&self.config.preset, self.least());
            let message = format!("{} samples; the preset `{preset}` needs at least {least}", self.n_samples);
            return Err(Error::invalid(message));
        }
        let after = self.beyond(self.tail.iter().rev());
        self.waiting.extend(after);
        self.take(self.config.n_frames(self.n_samples)? - self.n_frames)
    }

    /// Returns the samples that the first frame needs.
    fn least(&self) -> usize {
        match self.config.padding {
            Padding::Constant => 1,
            Padding::Reflect | Padding::Mirror => self.config.pad() + 1,
        }
    }

    fn is_begun(&self) -> bool {
        self.n_samples >= self.least()
    }

    /// Returns the samples beyond an end, outwards, of those before it, inwards.
    fn beyond<'a>(&self, inwards: impl Iterator<Item = &'a f32>) -> Vec<f32> {
        let pad = self.config.pad();
        match self.config.padding {
            Padding::Constant => vec![0.0; pad],
            Padding::Reflect => inwards.skip(1).take(pad).copied().collect(),
            Padding::Mirror => inwards.take(pad).copied().collect(),
        }
    }

    /// Returns the whole frames that wait, at most `most`.
    fn take(&mut self, most: usize) -> Result<Option<Value>> {
        let n = self.transform.config().n_frames(self.waiting.len())?.min(most);
        if n == 0 {
            return Ok(None);
        }
        let Config { hop_length, win_length, n_mels, .. } = self.config;
        let spectrogram = self.transform.run(&self.waiting[..(n - 1) * hop_length + win_length])?;
        self.waiting.drain(..n * hop_length);
        let values = spectrogram.values.to_f32();
        let at = |frame: usize, filter: usize| match self.config.order() {
            Order::FilterTime => filter * n + frame,
            Order::TimeFilter => frame * n_mels + filter,
        };
        let frames = (0..n).flat_map(|frame| (0..n_mels).map(move |filter| (frame, filter)));
        let bytes: Vec<u8> = frames.map(|(frame, filter)| level(values[at(frame, filter)])).collect();
        let first_frame = self.n_frames;
        self.n_frames += n;
        Ok(Some(json!({
            "type": "mel",
            "first_frame": first_frame,
            "n_mels": n_mels,
            "hop_samples": hop_length,
            "data": base64::encode(&bytes),
        })))
    }
}

/// Returns a preset whose values are decibels of power, with 0 for a sine of full scale.
pub(super) fn decibels(preset: Config) -> Config {
    let mut config = preset;
    let sum: f64 = (0..config.win_length).map(|n| config.window.at(n, config.win_length)).sum();
    config.input_scale = 2.0 / sum;
    config.power = 2;
    config.epsilon = 0.0;
    config.norm = Norm::None;
    config.log = Log::Log10;
    config.multiplier = 10.0;
    config.floor = 10f64.powf(LOWEST_DB / 10.0);
    config.offset = 0.0;
    config.range = None;
    config.dtype = OutputPrecision::F32;
    config
}

/// Returns the decibels as a byte.
pub(super) fn level(decibels: f32) -> u8 {
    ((decibels - LOWEST_DB as f32) / STEP_DB).round().clamp(0.0, 255.0) as u8
}
