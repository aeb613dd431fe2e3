//! Memory that an encoding engine takes, by the configuration alone.

use melisma_kernels::layer::need::{Need, Work, depthwise, downsample, entry, quantize, residual};
use melisma_kernels::layer::step::Timeline;

use super::super::chain::{attention_need, levels};
use super::super::need::Sizes;
use crate::snac::config::Config;
use crate::snac::reference::residual::DILATIONS;

/// Returns what all layers need for steps of `n_frames` frames, of all streams together.
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
        all.extend(attention_need(dim, window, work(1)));
        timeline.lag += window - 1;
    }
    all.push(depthwise(dim, 7));
    all.push(quantize([dim, config.codebook_dim], config.frame_latents(), &levels(config), timeline.lag + 3));
    all.into_iter().reduce(Need::with).unwrap_or_default()
}

/// Returns the sizes of what lies between the layers; the state is the layers' own.
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
        frame_out: config.n_slots(),
        widest,
        deviates: 0,
        attention: if config.attn_window_size.is_some() { config.latent_dim() } else { 0 },
    }
}
