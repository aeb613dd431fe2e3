//! `--verify-audio`: decodes the codes while they come and compares the audio with the original.

use std::sync::Arc;

use melisma::Result;
use melisma::fidelity::{Fidelity, Meter};
use melisma::snac::{Frames, Model, Noise, Player};

use melisma::Context;

/// The decoder and the comparison.
pub struct RoundTrip {
    player: Player,
    meter: Meter,
}

impl RoundTrip {
    pub fn new(context: &Context, model: &Arc<Model>) -> Result<Self> {
        let budget = context.budget();
        let player = Player::new(model, context.queue(), budget, Noise::Off)?;
        let meter = Meter::new_in(context, model.config().sampling_rate)?;
        Ok(Self { player, meter })
    }

    pub fn original(&mut self, samples: &[f32]) -> Result<()> {
        self.meter.original(samples)
    }

    pub fn codes(&mut self, frames: Frames<'_>) -> Result<()> {
        let samples = self.player.push(frames)?;
        self.meter.decoded(&samples)
    }

    pub fn finish(self) -> Result<Fidelity> {
        let Self { player, mut meter } = self;
        meter.decoded(&player.finish()?)?;
        meter.finish()
    }
}
