//! Plain implementations of layers that only move rows or apply curves.

use super::stage::{Conv, Curve};

/// Unfolds rows with their neighbours: `[T, C]` to `[T, K, C]`. Stores the last (K - 1) d rows
/// between steps.
#[derive(Debug)]
pub(super) struct Unfold {
    n_channels: usize,
    n_taps: usize,
    dilation: usize,
    /// The stored rows, then those of the step.
    seen: Vec<f32>,
    rows: Vec<f32>,
}

impl Unfold {
    pub(super) fn new(n_channels: usize, n_taps: usize, dilation: usize) -> Self {
        let mut unfold = Self { n_channels, n_taps, dilation, seen: Vec::new(), rows: Vec::new() };
        unfold.reset();
        unfold
    }

    pub(super) fn n_taps(&self) -> usize {
        self.n_taps
    }

    fn history(&self) -> usize {
        (self.n_taps - 1) * self.dilation * self.n_channels
    }

    pub(super) fn reset(&mut self) {
        self.seen.clear();
        self.seen.resize(self.history(), 0.0);
    }

    pub(super) fn run(&mut self, x: &[f32]) -> &[f32] {
        let (n, history) = (self.n_channels, self.history());
        self.seen.extend_from_slice(x);
        self.rows.resize(x.len() * self.n_taps, 0.0);
        for (row, to) in self.rows.chunks_exact_mut(self.n_taps * n).enumerate() {
            for (tap, to) in to.chunks_exact_mut(n).enumerate() {
                let at = (row + tap * self.dilation) * n;
                to.copy_from_slice(&self.seen[at..at + n]);
            }
        }
        let keep = self.seen.len() - history;
        self.seen.copy_within(keep.., 0);
        self.seen.truncate(history);
        &self.rows
    }
}

/// A dilated depthwise convolution.
#[derive(Debug)]
pub(super) struct Dilated {
    n_taps: usize,
    dilation: usize,
    /// `[K, C]`
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// The stored rows, then those of the step.
    seen: Vec<f32>,
}

impl Dilated {
    pub(super) fn new(conv: &Conv) -> Self {
        let (n, n_taps) = (conv.n_in, conv.n_taps);
        let weight = (0..n_taps * n).map(|at| conv.weight[at % n * n_taps + at / n]).collect();
        let mut layer = Self { n_taps, dilation: conv.dilation, weight, bias: conv.bias.clone(), seen: Vec::new() };
        layer.reset();
        layer
    }

    fn history(&self) -> usize {
        (self.n_taps - 1) * self.dilation * self.bias.len()
    }

    pub(super) fn reset(&mut self) {
        self.seen.clear();
        self.seen.resize(self.history(), 0.0);
    }

    pub(super) fn run(&mut self, x: &[f32], y: &mut [f32]) {
        let (n, history) = (self.bias.len(), self.history());
        self.seen.extend_from_slice(x);
        for (row, y) in y.chunks_exact_mut(n).enumerate() {
            y.copy_from_slice(&self.bias);
            for (tap, weight) in self.weight.chunks_exact(n).enumerate() {
                let at = (row + tap * self.dilation) * n;
                let terms = weight.iter().zip(&self.seen[at..at + n]);
                y.iter_mut().zip(terms).for_each(|(y, (weight, x))| *y += weight * x);
            }
        }
        let keep = self.seen.len() - history;
        self.seen.copy_within(keep.., 0);
        self.seen.truncate(history);
    }
}

/// Delays a signal until its branch has been computed.
#[derive(Debug, Default)]
pub(super) struct Delay {
    held: Vec<f32>,
}

impl Delay {
    pub(super) fn reset(&mut self) {
        self.held.clear();
    }

    pub(super) fn take(&mut self, x: &[f32]) {
        self.held.extend_from_slice(x);
    }

    /// Adds the branch to the signal that it came from.
    pub(super) fn add(&mut self, branch: &[f32], y: &mut Vec<f32>) {
        y.clear();
        y.extend(self.held.iter().zip(branch).map(|(x, branch)| x + branch));
        self.held.drain(..y.len());
    }
}

/// Computes x + sin²(αx) / (α + 1e-9) per channel.
pub(super) fn snake(alpha: &[f32], x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(alpha.len()).zip(y.chunks_exact_mut(alpha.len())) {
        for ((x, y), alpha) in x.iter().zip(y).zip(alpha) {
            let sine = (alpha * x).sin();
            *y = x + sine * sine / (alpha + 1e-9);
        }
    }
}

/// Applies a curve; all pass through zero, so padding stays zero.
pub(super) fn curve(which: Curve, x: &[f32], y: &mut [f32]) {
    let pairs = x.iter().zip(y);
    match which {
        Curve::Tanh => pairs.for_each(|(x, y)| *y = x.tanh()),
        Curve::Relu => pairs.for_each(|(x, y)| *y = if *x < 0.0 { 0.0 } else { *x }),
        Curve::LeakyRelu(slope) => pairs.for_each(|(x, y)| *y = if *x < 0.0 { slope * x } else { *x }),
    }
}
