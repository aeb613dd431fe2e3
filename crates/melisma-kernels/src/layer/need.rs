//! Memory that layers need, known before anything is allocated.

use super::cuda::SnakeTable;
use super::panel::{self, Panels};
use super::product::{CHUNK_K, Product};
use super::step::Timeline;
use super::{attention, downsample, entry, head, quantize, residual};
use crate::queue::scratch_bytes;

/// Memory of one layer, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Packed weights on the CPU.
    pub weights: usize,
    /// Scratch per thread on the CPU.
    pub scratch: usize,
    /// Scratch that all threads share on the CPU.
    pub shared: usize,
    /// State per slot on the CPU. On a GPU it is twice that: one copy is read while the other is
    /// written.
    pub state: usize,
    /// Weights and tables on a GPU.
    pub device_weights: usize,
    /// Scratch on a GPU.
    pub device_scratch: usize,
}

impl Need {
    /// Returns the memory of this layer and `other` in one step: scratch serves both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights,
            scratch: self.scratch.max(other.scratch),
            shared: self.shared.max(other.shared),
            state: self.state + other.state,
            device_weights: self.device_weights + other.device_weights,
            device_scratch: self.device_scratch.max(other.device_scratch),
        }
    }
}

/// The amount of work of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Rows of its product: columns of the step, over all streams.
    pub n_rows: usize,
    /// Threads of the queue.
    pub threads: usize,
}

/// Returns the memory of a [`Pointwise`](super::pointwise::Pointwise) layer `[n_in, n_out]`.
pub fn pointwise([n_in, n_out]: [usize; 2], work: Work) -> Need {
    let device_weights = bytes(n_out) + Product::bytes([n_out, n_in]);
    Need { device_weights, ..product([n_in, n_out], work, |_| 0) }
}

/// Returns the memory of an [`Upsample`](super::upsample::Upsample) layer `[n_in, n_out]`, whose
/// rows are inputs.
pub fn upsample([n_in, n_out]: [usize; 2], stride: usize, work: Work) -> Need {
    let padded_in = n_in.next_multiple_of(CHUNK_K);
    let product_bytes = Product::bytes([stride * n_out, 2 * padded_in]);
    Need {
        state: bytes(n_in),
        device_weights: SnakeTable::bytes(padded_in) + bytes(stride * n_out) + product_bytes,
        device_scratch: scratch_bytes(bytes(work.n_rows * n_in)),
        ..product([2 * n_in, stride * n_out], work, |_| n_in)
    }
}

/// Returns the memory of a [`Downsample`](super::downsample::Downsample) layer `[n_in, n_out]`,
/// whose rows are outputs; `from` is the timeline of its input.
pub fn downsample([n_in, n_out]: [usize; 2], stride: usize, from: Timeline, work: Work) -> Need {
    let table_bytes = SnakeTable::bytes(n_in.next_multiple_of(CHUNK_K));
    let product_bytes = Product::bytes([n_out, 2 * (stride * n_in).next_multiple_of(CHUNK_K)]);
    Need {
        state: bytes(downsample::n_past(from, stride) * n_in),
        device_weights: table_bytes + bytes(n_out) + product_bytes,
        device_scratch: scratch_bytes(bytes(work.n_rows * stride * n_in)),
        ..product([2 * stride * n_in, n_out], work, |_| n_in)
    }
}

/// Returns the memory of a [`Residual`](super::residual::Residual) unit.
pub fn residual(n_channels: usize, dilation: usize, work: Work) -> Need {
    let scratch_len = |n_rows| residual::cpu::scratch_len(n_channels, dilation, n_rows);
    let tables = 2 * SnakeTable::bytes(n_channels.next_multiple_of(CHUNK_K));
    let taps_and_biases = bytes((residual::TAPS + 2) * n_channels);
    Need {
        state: bytes((residual::TAPS - 1) * dilation * n_channels),
        device_weights: tables + taps_and_biases + Product::bytes([n_channels; 2]),
        device_scratch: scratch_bytes(bytes(work.n_rows * n_channels)),
        ..product([n_channels, n_channels], work, scratch_len)
    }
}

/// Returns the memory of a [`Depthwise`](super::depthwise::Depthwise) layer.
pub fn depthwise(n_channels: usize, n_taps: usize) -> Need {
    Need {
        state: bytes((n_taps - 1) * n_channels),
        device_weights: bytes((n_taps + 1) * n_channels),
        ..Need::default()
    }
}

/// Returns the memory of a [`Norm`](super::norm::Norm) layer.
pub fn norm(n_channels: usize) -> Need {
    Need { device_weights: bytes(2 * n_channels), ..Need::default() }
}

/// Returns the memory of an [`Attention`](super::attention::Attention) layer in steps of
/// `n_latents` per stream.
pub fn attention([n_channels, head_dim]: [usize; 2], window: usize, n_latents: usize) -> Need {
    Need {
        shared: bytes(attention::cpu::scratch_len(n_channels, window, n_latents)),
        state: bytes(6 * (window - 1) * n_channels),
        device_weights: bytes(2 * window * (head_dim / 2)),
        ..Need::default()
    }
}

/// Returns the memory of the [`Head`](super::head::Head).
pub fn head(n_channels: usize) -> Need {
    Need {
        scratch: bytes(head::cpu::scratch_len(n_channels)),
        state: bytes((head::TAPS - 1) * n_channels),
        device_weights: SnakeTable::bytes(n_channels) + bytes(head::TAPS * n_channels),
        ..Need::default()
    }
}

/// Returns the memory of an [`Embed`](super::embed::Embed) layer; `levels` has the codes of a frame
/// and the size of the codebook of each level.
pub fn embed(n_channels: usize, dim: usize, levels: &[[usize; 2]]) -> Need {
    let level = |[n_codes, n_vectors]: [usize; 2]| {
        (EMBED_WORDS + n_codes) * size_of::<i64>() + bytes(n_vectors * dim + dim * n_channels + n_channels)
    };
    Need { device_weights: levels.iter().copied().map(level).sum(), ..Need::default() }
}

/// Words per level of an embedding's table.
const EMBED_WORDS: usize = 6;

/// Returns the memory of a [`Noise`](super::noise::Noise) layer.
pub fn noise(n_blocks: usize) -> Need {
    Need { device_weights: (2 * n_blocks).max(1) * size_of::<i64>(), ..Need::default() }
}

/// Returns the memory of the [`Entry`](super::entry::Entry).
pub fn entry(n_channels: usize) -> Need {
    Need { state: bytes(entry::TAPS - 1), device_weights: bytes((entry::TAPS + 1) * n_channels), ..Need::default() }
}

/// Returns the memory of a [`Quantize`](super::quantize::Quantize) layer of `[n_channels, dim]`,
/// whose input lags by `lag` latents; `levels` is as in [`embed`].
pub fn quantize([n_channels, dim]: [usize; 2], frame_latents: usize, levels: &[[usize; 2]], lag: usize) -> Need {
    let frame_codes = levels.iter().map(|[n_codes, _]| n_codes).sum();
    let level = |[n_codes, n_vectors]: [usize; 2]| {
        let floats = 2 * n_vectors * dim + (2 * n_channels + 1) * dim + n_channels;
        quantize::cuda::LEVEL_BYTES + n_codes * size_of::<i64>() + bytes(floats)
    };
    Need {
        scratch: bytes(quantize::cpu::scratch_len([n_channels, dim], [frame_latents, frame_codes])),
        state: bytes((lag.next_multiple_of(frame_latents) - lag) * n_channels),
        device_weights: levels.iter().copied().map(level).sum(),
        ..Need::default()
    }
}

fn product([k, n]: [usize; 2], Work { n_rows, threads }: Work, layer_len: impl Fn(usize) -> usize) -> Need {
    let scratch = bytes(panel::scratch_len(k, n_rows, threads, layer_len));
    Need { weights: Panels::bytes([k, n]), scratch, ..Need::default() }
}

fn bytes(n_floats: usize) -> usize {
    n_floats * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_share_scratch_and_add_the_rest() {
        let of = |n: [usize; 6]| {
            let [weights, scratch, shared, state, device_weights, device_scratch] = n;
            Need { weights, scratch, shared, state, device_weights, device_scratch }
        };
        let (a, b) = (of([1, 2, 3, 4, 5, 6]), of([10, 20, 30, 40, 50, 60]));
        assert_eq!(a.with(b), of([11, 20, 30, 44, 55, 60]));
        assert_eq!(b.with(a), a.with(b));
    }
}
