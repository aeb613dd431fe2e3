//! Memory that layers need on the CPU, known before anything is allocated.

use super::panel::{self, Panels};
use super::{attention, head, residual};

/// Memory of one layer on the CPU, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Packed weights.
    pub weights: usize,
    /// Scratch per thread.
    pub scratch: usize,
    /// Scratch that all threads share.
    pub shared: usize,
    /// State per slot.
    pub state: usize,
}

/// The amount of work of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Rows of its product: columns of the step, over all streams.
    pub n_rows: usize,
    /// Threads of the queue.
    pub threads: usize,
}

/// Memory of a [`Pointwise`](super::pointwise::Pointwise) layer `[n_in, n_out]`.
pub fn pointwise([n_in, n_out]: [usize; 2], work: Work) -> Need {
    product([n_in, n_out], work, |_| 0)
}

/// Memory of an [`Upsample`](super::upsample::Upsample) layer `[n_in, n_out]`, whose rows are
/// inputs.
pub fn upsample([n_in, n_out]: [usize; 2], stride: usize, work: Work) -> Need {
    Need { state: bytes(n_in), ..product([2 * n_in, stride * n_out], work, |_| n_in) }
}

/// Memory of a [`Residual`](super::residual::Residual) unit.
pub fn residual(n_channels: usize, dilation: usize, work: Work) -> Need {
    let scratch_len = |n_rows| residual::cpu::scratch_len(n_channels, dilation, n_rows);
    let state = bytes((residual::TAPS - 1) * dilation * n_channels);
    Need { state, ..product([n_channels, n_channels], work, scratch_len) }
}

/// Memory of a [`Depthwise`](super::depthwise::Depthwise) layer.
pub fn depthwise(n_channels: usize, n_taps: usize) -> Need {
    Need { state: bytes((n_taps - 1) * n_channels), ..Need::default() }
}

/// Memory of an [`Attention`](super::attention::Attention) layer in steps of `n_latents` per
/// stream.
pub fn attention(n_channels: usize, window: usize, n_latents: usize) -> Need {
    let shared = bytes(attention::cpu::scratch_len(n_channels, window, n_latents));
    Need { shared, state: bytes(6 * (window - 1) * n_channels), ..Need::default() }
}

/// Memory of the [`Head`](super::head::Head).
pub fn head(n_channels: usize) -> Need {
    let scratch = bytes(head::cpu::scratch_len(n_channels));
    Need { scratch, state: bytes((head::TAPS - 1) * n_channels), ..Need::default() }
}

fn product([k, n]: [usize; 2], Work { n_rows, threads }: Work, layer_len: impl Fn(usize) -> usize) -> Need {
    let scratch = bytes(panel::scratch_len(k, n_rows, threads, layer_len));
    Need { weights: Panels::bytes([k, n]), scratch, ..Need::default() }
}

fn bytes(n_floats: usize) -> usize {
    n_floats * size_of::<f32>()
}
