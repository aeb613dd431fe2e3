//! Resamples interleaved audio that arrives in pieces.

use super::Layout;
use crate::Result;
use crate::audio::resample::{Ratio, Running};

/// One resampler per channel, or none where the rate stays.
#[derive(Debug)]
pub(super) struct RateConverter {
    /// Of the output.
    layout: Layout,
    resamplers: Vec<Running>,
    channel: Vec<f32>,
    ready: Vec<f32>,
}

impl RateConverter {
    /// Converts from `layout` to the same channels at `sample_rate`.
    pub(super) fn new(layout: Layout, sample_rate: u32) -> Result<Self> {
        let resamplers = if sample_rate == layout.sample_rate {
            Vec::new()
        } else {
            let ratio = Ratio::new(layout.sample_rate, sample_rate)?;
            (0..layout.n_channels).map(|_| Running::new(ratio)).collect()
        };
        Ok(Self { layout: Layout { sample_rate, ..layout }, resamplers, channel: Vec::new(), ready: Vec::new() })
    }

    /// Returns the layout of the output.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes interleaved samples, in whole frames.
    pub(super) fn push(&mut self, samples: &[f32]) {
        if self.resamplers.is_empty() {
            self.ready.clear();
            self.ready.extend_from_slice(samples);
            return;
        }
        for (index, resampler) in self.resamplers.iter_mut().enumerate() {
            self.channel.clear();
            self.channel.extend(samples.iter().skip(index).step_by(self.layout.n_channels));
            resampler.push(&self.channel);
        }
        self.interleave();
    }

    /// Ends the audio; the rest is then ready.
    pub(super) fn finish(&mut self) {
        self.resamplers.iter_mut().for_each(|resampler| {
            resampler.finish();
        });
        self.interleave();
    }

    /// Returns the interleaved outputs of the last call.
    pub(super) fn ready(&self) -> &[f32] {
        &self.ready
    }

    fn interleave(&mut self) {
        let n = self.resamplers.first().map_or(0, |resampler| resampler.ready().len());
        let frames = (0..n).flat_map(|i| self.resamplers.iter().map(move |resampler| resampler.ready()[i]));
        self.ready.clear();
        self.ready.extend(frames);
    }
}
