//! Decoding while codes still arrive.
//!
//! Frames go in as they come; samples come out as soon as no later frame can change them, and are, bit for bit, those
//! of decoding the whole clip. The decoder looks ahead (in the published 24 kHz model by 4757 samples, 2.3 frames), so
//! the first samples appear with the third frame. [`Stream::peek`] starts earlier, once, with an approximation.

use std::sync::Arc;

use super::codec::PIECE_FRAMES;
use super::decoder::State;
use super::layer::Flow;
use super::plane::Plane;
use crate::Result;
use crate::snac::codes::Frames;
use crate::snac::model::Model;
use crate::snac::noise::Noise;
use crate::snac::progress::Progress;

/// One decoding stream. Its memory does not grow with its length.
#[derive(Debug, Clone)]
pub struct Stream {
    model: Arc<Model>,
    noise: Noise,
    state: State,
    progress: Progress,
}

impl Stream {
    /// Creates a stream at its start.
    pub fn new(model: Arc<Model>, noise: Noise) -> Self {
        Self { state: model.decoder.start(), model, noise, progress: Progress::default() }
    }

    /// Returns where it stands.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns the bytes of state.
    pub fn state_bytes(&self) -> usize {
        4 * self.state.n_values()
    }

    /// Takes frames, gives the samples that became final and were not handed out yet.
    ///
    /// # Errors
    /// `InvalidArgument` when `frames` are of a model of another shape.
    pub fn push<'a>(&mut self, frames: impl Into<Frames<'a>>) -> Result<Vec<f32>> {
        let frames = frames.into();
        frames.check(self.model.config())?;
        let mut samples = Vec::new();
        for piece in frames.chunks(PIECE_FRAMES) {
            let latents = self.model.quantizer.decode(&piece.levels());
            self.progress.pushed += (latents.len() * self.model.config().hop_len()) as u64;
            samples.extend(self.advance(&latents, Flow::More));
        }
        Ok(samples)
    }

    /// Ends the stream: gives all samples that were not handed out yet.
    pub fn finish(mut self) -> Vec<f32> {
        let end = Plane::zeros(self.model.config().latent_dim(), 0);
        self.advance(&end, Flow::Last)
    }

    /// Returns the newest samples as they would be if the stream ended here, without touching its state; only before
    /// anything was handed out, and nothing afterwards. They are not handed out again when they become final.
    pub fn peek(&mut self) -> Vec<f32> {
        if self.progress.emitted > 0 {
            return Vec::new();
        }
        let samples = self.clone().finish();
        self.progress.emitted = samples.len() as u64;
        self.progress.early = self.progress.emitted - self.progress.exact;
        samples
    }

    fn advance(&mut self, latents: &Plane, flow: Flow) -> Vec<f32> {
        let mut samples = self.model.decoder.push(&mut self.state, latents, &self.noise, flow);
        let known = self.progress.gap().min(samples.len() as u64);
        samples.drain(..known as usize);
        self.progress.exact += known + samples.len() as u64;
        self.progress.emitted += samples.len() as u64;
        samples
    }
}

#[cfg(test)]
#[cfg(feature = "builtin")]
mod tests {
    use super::*;
    use crate::snac::{Codes, Config};

    #[test]
    fn codes_of_another_model_are_refused() {
        let mut stream = Stream::new(Arc::new(Model::mini24().unwrap()), Noise::Off);
        let error = stream.push(&Codes::empty(&Config::snac_32khz())).unwrap_err();
        assert!(error.to_string().starts_with("codes for a model with strides [8, 4, 2, 1]"), "{error}");
    }
}
