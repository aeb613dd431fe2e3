//! One text to samples, while its tokens are drawn.

use std::sync::Arc;

use super::estimate::{Estimate, Trial, frame_time};
use super::format::Settings;
use super::run::{Note, ScriptRun, Stage, silent};
use crate::audio::Layout;
use crate::audio::stretch::Stretch;
use crate::snac::tokens::Ledger;
use crate::snac::{self, Codes, DecodeOptions, Player};
use crate::{Context, Error, Result};

/// How a text is spoken.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// How tokens are drawn.
    pub settings: Settings,
    /// How the codec decodes them.
    pub decoding: DecodeOptions,
    /// 0.25 to 4; 1 is the model's own speed.
    pub speed: f64,
}

impl From<Settings> for Delivery {
    fn from(settings: Settings) -> Self {
        Self { settings, decoding: DecodeOptions::default(), speed: 1.0 }
    }
}

/// Frames that became whole, and the samples that became final with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// New frames; none at the end.
    pub codes: Codes,
    /// Samples that no later frame changes. The first frames give none.
    pub samples: Vec<f32>,
}

/// The speech of one text. All its pieces go through one stream of the codec, so nothing is heard between them.
#[derive(Debug)]
pub struct Speech {
    codec: Arc<snac::Model>,
    stage: Stage,
    runs: [ScriptRun; 1],
    /// `None` after the end.
    player: Option<Player>,
    stretch: Option<Stretch>,
    n_frames: usize,
}

impl Speech {
    pub(super) fn new(
        (context, codec): (&Context, &Arc<snac::Model>),
        stage: Stage,
        run: ScriptRun,
        delivery: &Delivery,
    ) -> Result<Self> {
        let layout = Layout::new(codec.config().sampling_rate, 1);
        let stretch = (delivery.speed != 1.0).then(|| Stretch::new(layout, delivery.speed)).transpose()?;
        let player = Player::new(codec, context.queue(), context.budget(), delivery.decoding.clone())?;
        Ok(Self { codec: Arc::clone(codec), stage, runs: [run], player: Some(player), stretch, n_frames: 0 })
    }

    /// Returns the account of the tokens so far.
    pub fn ledger(&self) -> Ledger {
        self.runs[0].ledger()
    }

    /// Returns what a listener should know so far.
    pub fn notes(&self) -> &[Note] {
        &self.runs[0].notes
    }

    /// Tries a few steps, of which nothing is left, and returns how fast the whole will be.
    ///
    /// # Errors
    /// `InvalidArgument` when the speech has begun; otherwise the device failed.
    pub fn estimate(&mut self) -> Result<Estimate> {
        let config = self.codec.config();
        let [run] = &self.runs;
        let begun = || Error::invalid("this speech has begun").with_hint("estimate it before its first piece");
        let player = self.player.as_mut().filter(|_| !run.has_begun()).ok_or_else(begun)?;
        let step = self.stage.step_time(1, run.way())?;
        let frame = frame_time(config, |codes| player.decode_beside(codes))?;
        Ok(Trial { n_at_once: 1, step, frame }.estimate(config, run.max_frames()))
    }

    /// Speaks up to the next whole frame, or to the end.
    fn advance(&mut self) -> Result<Option<Piece>> {
        while !self.runs[0].is_done() {
            if let Some((_, error)) = self.stage.step(&mut self.runs)?.into_iter().next() {
                return Err(error);
            }
            let frames = self.runs[0].take();
            if !frames.is_empty() {
                return self.decode(&frames).map(Some);
            }
        }
        let Some(player) = self.player.take() else { return Ok(None) };
        if self.n_frames == 0 {
            return Err(silent());
        }
        let _span = tracing::info_span!("codec").entered();
        let mut samples = player.finish()?;
        if let Some(mut stretch) = self.stretch.take() {
            samples = stretch.push(&samples).to_vec();
            samples.extend(stretch.finish());
        }
        Ok(Some(Piece { codes: Codes::empty(self.codec.config()), samples }))
    }

    fn decode(&mut self, frames: &[i32]) -> Result<Piece> {
        let codes = Codes::from_frames(self.codec.config(), frames)?;
        self.n_frames += codes.n_frames();
        let _span = tracing::info_span!("codec", n = codes.n_frames()).entered();
        let samples = match &mut self.player {
            Some(player) => player.push(&codes)?,
            None => Vec::new(),
        };
        let samples = match &mut self.stretch {
            Some(stretch) => stretch.push(&samples).to_vec(),
            None => samples,
        };
        Ok(Piece { codes, samples })
    }
}

impl Iterator for Speech {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.player.as_ref()?;
        let piece = self.advance();
        if piece.is_err() {
            self.player = None;
        }
        piece.transpose()
    }
}
