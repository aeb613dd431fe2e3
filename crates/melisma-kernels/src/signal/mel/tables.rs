//! Tables that depend only on the parameters, the same on every device.

use super::Mel;
use super::fft::{Fft, root};

/// Window, transform and filters.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) fft: Fft,
    /// `n_fft` coefficients, halved if the transform has half the length.
    pub(super) window: Vec<f32>,
    /// -i w^k for the bins of a real transform, k up to n_fft / 4.
    pub(super) turns: Vec<[f32; 2]>,
    pub(super) filters: Vec<Filter>,
    pub(super) weights: Vec<f32>,
}

/// The nonzero part of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter {
    pub(super) first_bin: usize,
    pub(super) first_weight: usize,
    pub(super) n_bins: usize,
}

/// Returns the number of points of the complex transform: half of an even number of real samples.
pub(super) fn half_len(n_fft: usize) -> usize {
    if n_fft.is_multiple_of(2) { n_fft / 2 } else { n_fft }
}

impl Tables {
    pub(super) fn new(mel: &Mel) -> Self {
        let is_even = mel.n_fft.is_multiple_of(2);
        let fft = Fft::new(half_len(mel.n_fft));
        let height = if is_even { 0.5 } else { 1.0 };
        let mut window: Vec<f32> = mel.window.iter().map(|w| (w * height) as f32).collect();
        window.resize(mel.n_fft, 0.0);
        let turn = |k| {
            let [cos, sin] = root(k, mel.n_fft);
            [sin, -cos]
        };
        let turns = if is_even { (0..=fft.len / 2).map(turn).collect() } else { Vec::new() };
        let (mut filters, mut weights) = (Vec::new(), Vec::new());
        for row in mel.filters.chunks(mel.n_bins()) {
            let first_bin = row.iter().position(|&w| w != 0.0).unwrap_or(0);
            let end = row.iter().rposition(|&w| w != 0.0).map_or(first_bin, |last| last + 1);
            filters.push(Filter { first_bin, first_weight: weights.len(), n_bins: end - first_bin });
            weights.extend(&row[first_bin..end]);
        }
        Self { fft, window, turns, filters, weights }
    }
}
