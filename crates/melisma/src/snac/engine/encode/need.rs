//! Memory that an encoding engine takes, by the configuration alone.

use melisma_kernels::layer::need::{
    Need, Work, attention, depthwise, downsample, entry, norm, pointwise, quantize, residual,
};
use melisma_kernels::layer::step::Timeline;

use super::super::need::Shape;
use super::super::size::Sizes;
use super::layers::supported;
use super::{EncodeEngine, capacity};
use crate::runtime::device::Device;
use crate::runtime::memory::Needed;
use crate::snac::config::{Config, HEAD_DIM};
use crate::snac::reference::residual::DILATIONS;

impl EncodeEngine {
    /// The most memory that an engine for models of this shape takes on `device`, its queue's scratch included, whatever
    /// it encodes; nothing for a model that the engine has no kernels for.
    pub fn needed(config: &Config, device: &Device, max_streams: usize) -> Needed {
        if supported(config).and_then(|()| config.check()).is_err() {
            return Needed::default();
        }
        let shape = Shape { capacity: capacity(device, max_streams), sizes: sizes(config) };
        shape.needed(device, |n_frames, threads| layers(config, n_frames, threads))
    }
}

/// All layers for steps of `n_frames` frames, of all streams together.
pub(super) fn layers(config: &Config, n_frames: usize, threads: usize) -> Need {
    let n_latents = n_frames * config.frame_latents();
    let work = |rate: usize| Work { n_rows: n_latents * rate, threads };
    let mut timeline = Timeline { rate: config.hop_len(), lag: 3 };
    let mut dim = config.encoder_dim;
    let mut all = vec![entry(dim)];
    for &stride in &config.encoder_rates {
        all.extend(DILATIONS.map(|dilation| residual(dim, dilation, work(timeline.rate))));
        timeline.lag += 3 * DILATIONS.iter().sum::<usize>();
        let to = timeline.downsampled(stride);
        all.push(downsample([dim, 2 * dim], stride, timeline, work(to.rate)));
        (timeline, dim) = (to, 2 * dim);
    }
    if let Some(window) = config.attn_window_size {
        all.push(norm(dim));
        all.push(pointwise([dim, 3 * dim], work(1)));
        all.push(attention([dim, HEAD_DIM], window, n_latents));
        all.push(pointwise([dim, dim], work(1)));
        timeline.lag += window - 1;
    }
    all.push(depthwise(dim, 7));
    let levels: Vec<[usize; 2]> = config.frame_codes().map(|n_codes| [n_codes, config.codebook_size]).collect();
    all.push(quantize([dim, config.codebook_dim], config.frame_latents(), &levels, timeline.lag + 3));
    all.into_iter().reduce(Need::with).unwrap_or_default()
}

/// What lies between the layers; the state is the layers' own.
pub(super) fn sizes(config: &Config) -> Sizes {
    let mut stage = [config.hop_len(), config.encoder_dim];
    let mut widest = stage[0] * stage[1];
    for stride in &config.encoder_rates {
        stage = [stage[0] / stride, 2 * stage[1]];
        widest = widest.max(stage[0] * stage[1]);
    }
    Sizes {
        slot_len: 0,
        frame_latents: config.frame_latents(),
        frame_in: config.frame_len(),
        frame_out: config.frame_codes().sum(),
        widest,
        deviates: 0,
        attention: if config.attn_window_size.is_some() { config.latent_dim() } else { 0 },
    }
}
