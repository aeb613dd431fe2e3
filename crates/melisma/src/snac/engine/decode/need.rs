//! Memory that an engine takes, by the configuration alone.

use melisma_kernels::layer::need::{Need, Work, depthwise, embed, head, noise, pointwise, residual, upsample};

use super::super::chain::{attention_need, levels};
use super::super::need::Sizes;
use crate::snac::config::Config;
use crate::snac::reference::residual::DILATIONS;

/// Channels and time steps per latent of a layer's output.
struct Stage {
    n_channels: usize,
    rate: usize,
}

/// Returns what all layers need for steps of `n_frames` frames, of all streams together.
pub(super) fn layers(config: &Config, n_frames: usize, threads: usize) -> Need {
    let n_latents = n_frames * config.frame_latents();
    let work = |rate: usize| Work { n_rows: n_latents * rate, threads };
    let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
    let n_blocks = if config.noise { config.decoder_rates.len() } else { 0 };
    let mut all = vec![
        embed(latent_dim, config.codebook_dim, &levels(config)),
        noise(n_blocks),
        depthwise(latent_dim, 7),
        pointwise([latent_dim, dim], work(1)),
    ];
    if let Some(window) = config.attn_window_size {
        all.extend(attention_need(dim, window, work(1)));
    }
    let mut from = Stage { n_channels: dim, rate: 1 };
    for (to, stride) in stages(config).zip(&config.decoder_rates) {
        all.push(upsample([from.n_channels, to.n_channels], *stride, work(from.rate)));
        if config.noise {
            all.push(pointwise([to.n_channels; 2], work(to.rate)));
        }
        all.extend(DILATIONS.map(|dilation| residual(to.n_channels, dilation, work(to.rate))));
        from = to;
    }
    all.push(head(from.n_channels));
    all.into_iter().reduce(Need::with).unwrap_or_default()
}

/// Returns the outputs of the decoder's blocks.
fn stages(config: &Config) -> impl Iterator<Item = Stage> {
    config.decoder_rates.iter().scan(Stage { n_channels: config.decoder_dim, rate: 1 }, |stage, stride| {
        *stage = Stage { n_channels: stage.n_channels / 2, rate: stage.rate * stride };
        Some(Stage { ..*stage })
    })
}

/// Returns the sizes of what lies between the layers; the state is the layers' own.
pub(super) fn sizes(config: &Config) -> Sizes {
    let widest = stages(config).map(|stage| stage.rate * stage.n_channels);
    Sizes {
        slot_len: 0,
        frame_latents: config.frame_latents(),
        frame_in: config.n_slots(),
        frame_out: config.frame_len(),
        widest: widest.chain([config.latent_dim(), config.decoder_dim]).max().unwrap_or(0),
        deviates: if config.noise { stages(config).map(|stage| stage.rate).sum() } else { 0 },
        attention: if config.attn_window_size.is_some() { config.decoder_dim } else { 0 },
    }
}
