//! Bytes that an engine takes on the CPU, by the configuration alone.

use melisma_kernels::layer::need::{Need, Work, attention, depthwise, head, pointwise, residual, upsample};

use super::super::ring::N_ENTRIES;
use super::Engine;
use super::batch::Capacity;
use crate::snac::config::Config;
use crate::snac::residual::DILATIONS;

/// Channels and time steps per latent of a layer's output.
struct Stage {
    n_channels: usize,
    rate: usize,
}

impl Engine {
    /// The most bytes of host memory that an engine for models of this shape takes on the CPU, its queue's scratch for
    /// `threads` threads included, whatever it decodes; 0 for a model that the engine has no kernels for.
    pub fn cpu_bytes(config: &Config, threads: usize, max_streams: usize) -> u64 {
        if !config.depthwise {
            return 0;
        }
        let capacity = Capacity::new(config, max_streams);
        let steps = (1..=capacity.n_frames).map(|n_frames| layers(config, n_frames, threads));
        // Scratch grows to what the largest step needs; weights and state are those of any.
        let total =
            steps.reduce(|a, b| Need { scratch: a.scratch.max(b.scratch), shared: a.shared.max(b.shared), ..a });
        let Need { weights, scratch, shared, state } = total.unwrap_or_default();
        let slots = (capacity.n_slots + 2) * state;
        (weights + threads * scratch + shared + slots + buffers(config, capacity)) as u64
    }
}

/// All layers for steps of `n_frames` frames, of all streams together.
fn layers(config: &Config, n_frames: usize, threads: usize) -> Need {
    let n_latents = n_frames * config.frame_latents();
    let work = |rate: usize| Work { n_rows: n_latents * rate, threads };
    let (latent_dim, dim) = (config.latent_dim(), config.decoder_dim);
    let mut all = vec![depthwise(latent_dim, 7), pointwise([latent_dim, dim], work(1))];
    if let Some(window) = config.attn_window_size {
        all.push(pointwise([dim, 3 * dim], work(1)));
        all.push(attention(dim, window, n_latents));
        all.push(pointwise([dim, dim], work(1)));
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
    let add = |a: Need, b: Need| Need {
        weights: a.weights + b.weights,
        scratch: a.scratch.max(b.scratch),
        shared: a.shared.max(b.shared),
        state: a.state + b.state,
    };
    all.into_iter().reduce(add).unwrap_or_default()
}

/// The outputs of the decoder's blocks.
fn stages(config: &Config) -> impl Iterator<Item = Stage> {
    config.decoder_rates.iter().scan(Stage { n_channels: config.decoder_dim, rate: 1 }, |stage, stride| {
        *stage = Stage { n_channels: stage.n_channels / 2, rate: stage.rate * stride };
        Some(Stage { ..*stage })
    })
}

/// What lies between the layers, and the way to it and back.
fn buffers(config: &Config, capacity: Capacity) -> usize {
    let widest = stages(config).map(|stage| stage.rate * stage.n_channels);
    let widest = widest.chain([config.latent_dim(), config.decoder_dim]).max().unwrap_or(0);
    let deviates: usize = if config.noise { stages(config).map(|stage| stage.rate).sum() } else { 0 };
    let attention = if config.attn_window_size.is_some() { 4 * config.decoder_dim } else { 0 };
    let samples = (1 + N_ENTRIES) * config.hop_len();
    let per_latent = deviates + 2 * widest + attention + samples;
    let n_latents = capacity.n_frames * capacity.frame_latents;
    let n_codes = 2 * capacity.n_frames * capacity.frame_codes;
    n_latents * per_latent * size_of::<f32>() + n_codes * size_of::<i32>()
}
