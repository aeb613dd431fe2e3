//! One text to samples, while its tokens are drawn.

use std::sync::Arc;

use super::ahead::{MAX_AT_ONCE, Pace, Pieces};
use super::estimate::{Estimate, Trial, frame_time};
use super::format::Settings;
use super::note::Note;
use super::run::{Stage, silent};
use crate::audio::Layout;
use crate::audio::stretch::Stretch;
use crate::snac::tokens::Ledger;
use crate::snac::{self, Codes, DecodeOptions, Player};
use crate::{Context, Error, Result};

/// The most frames that leave together: the codec reads its weights once for so many.
const MAX_FRAMES: usize = 8;

/// How a text is spoken.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// How tokens are drawn.
    pub settings: Settings,
    /// How the codec decodes them.
    pub decoding: DecodeOptions,
    /// 0.25 to 4; 1 is the model's own speed.
    pub speed: f64,
    /// How soon the samples are needed.
    pub pace: Pace,
}

impl From<Settings> for Delivery {
    fn from(settings: Settings) -> Self {
        Self { settings, decoding: DecodeOptions::default(), speed: 1.0, pace: Pace::Live }
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
    pieces: Pieces,
    pace: Pace,
    /// Codes of whole frames that were not decoded yet.
    codes: Vec<i32>,
    /// `None` after the end.
    player: Option<Player>,
    stretch: Option<Stretch>,
    n_frames: usize,
    /// Whether samples have left.
    is_heard: bool,
}

impl Speech {
    pub(super) fn new(
        (context, codec): (&Context, &Arc<snac::Model>),
        stage: Stage,
        pieces: Pieces,
        delivery: &Delivery,
    ) -> Result<Self> {
        let layout = Layout::new(codec.config().sampling_rate, 1);
        let stretch = (delivery.speed != 1.0).then(|| Stretch::new(layout, delivery.speed)).transpose()?;
        let player = Player::new(codec, context.queue(), context.budget(), delivery.decoding.clone())?;
        let (codec, player, codes) = (Arc::clone(codec), Some(player), Vec::new());
        let pace = delivery.pace;
        Ok(Self { codec, stage, pieces, pace, codes, player, stretch, n_frames: 0, is_heard: false })
    }

    /// Returns the account of the tokens so far.
    pub fn ledger(&self) -> Ledger {
        self.pieces.ledger()
    }

    /// Returns what a listener should know so far.
    pub fn notes(&self) -> &[Note] {
        self.pieces.notes()
    }

    /// Tries a few steps, of which nothing is left, and returns how fast the whole will be.
    ///
    /// # Errors
    /// `InvalidArgument` when the speech has begun; otherwise the device failed.
    #[doc(hidden)]
    pub fn estimate(&mut self) -> Result<Estimate> {
        let config = self.codec.config();
        let begun = || Error::invalid("this speech has begun").with_hint("estimate it before its first piece");
        let run = self.pieces.unbegun().ok_or_else(begun)?;
        let player = self.player.as_mut().ok_or_else(begun)?;
        let n_at_once = self.stage.n_fitting().clamp(1, self.pieces.at_once());
        let step = self.stage.step_time(n_at_once, run.way())?;
        let frame = frame_time(config, |codes| player.decode_beside(codes))?;
        Ok(Trial { n_at_once, step, frame }.estimate(config, run.max_frames()))
    }

    /// Speaks up to the next frames that leave, or to the end.
    fn advance(&mut self) -> Result<Option<Piece>> {
        let n_slots = self.codec.config().n_slots();
        // Until the first samples leave, nothing slows them down.
        let (n_wanted, most) = match self.pace {
            Pace::Whole if self.is_heard => (MAX_FRAMES, MAX_AT_ONCE),
            _ => (1, 1),
        };
        while self.codes.len() < n_wanted * n_slots && !self.pieces.is_done() {
            self.pieces.step(&mut self.stage, most)?;
            self.pieces.take(&mut self.codes);
        }
        if !self.codes.is_empty() {
            let n = self.codes.len().min(MAX_FRAMES * n_slots);
            let codes: Vec<i32> = self.codes.drain(..n).collect();
            return self.decode(&codes).map(Some);
        }
        if let Some(error) = self.pieces.error() {
            return Err(error);
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
        self.is_heard |= !samples.is_empty();
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
