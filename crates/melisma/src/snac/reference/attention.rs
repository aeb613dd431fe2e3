//! LocalMHA: attention inside windows that do not overlap, with rotary positions counted from each window's start.
//!
//! x + W_out · softmax(q kᵀ / 8) v, where q, k, v come from a layer norm over channels, in heads of 64 channels. A
//! window is complete before any of it is final. The last one of a clip may be short: missing keys are masked
//! out.

use super::conv::Conv1d;
use super::layer::Flow;
use super::plane::Plane;
use crate::Result;
use crate::snac::config::HEAD_DIM;
use crate::snac::weights::Weights;

/// A local attention layer.
#[derive(Debug)]
pub struct LocalMha {
    pub(in crate::snac) window: usize,
    pub(in crate::snac) norm_weight: Vec<f32>,
    pub(in crate::snac) norm_bias: Vec<f32>,
    pub(in crate::snac) to_qkv: Conv1d,
    pub(in crate::snac) to_out: Conv1d,
    /// `[window, HEAD_DIM / 2]`: cosine and sine of position times frequency.
    pub(in crate::snac) rotation: Vec<[f32; 2]>,
}

/// State of a [`LocalMha`]: the window that is being filled.
#[derive(Debug, Clone)]
pub struct Window(Plane);

impl Window {
    /// Returns the number of values held.
    pub fn n_values(&self) -> usize {
        self.0.data().len()
    }
}

impl LocalMha {
    pub(in crate::snac) fn load(
        weights: &mut Weights<'_>,
        name: &str,
        n_channels: usize,
        window: usize,
    ) -> Result<Self> {
        let norm_weight = weights.tensor(&format!("{name}.norm.weight"), &[n_channels])?;
        let norm_bias = weights.tensor(&format!("{name}.norm.bias"), &[n_channels])?;
        let to_qkv = weights.tensor(&format!("{name}.to_qkv.weight"), &[3 * n_channels, n_channels])?;
        let to_out = weights.tensor(&format!("{name}.to_out.weight"), &[n_channels, n_channels])?;
        let half = HEAD_DIM / 2;
        let angle = |position: usize, index: usize| {
            let frequency = 1.0 / 10_000_f32.powf(index as f32 / half as f32);
            let (sin, cos) = (position as f32 * frequency).sin_cos();
            [cos, sin]
        };
        let rotation = (0..window).flat_map(|position| (0..half).map(move |index| angle(position, index))).collect();
        let to_qkv = Conv1d::pointwise(n_channels, to_qkv);
        let to_out = Conv1d::pointwise(n_channels, to_out);
        Ok(Self { window, norm_weight, norm_bias, to_qkv, to_out, rotation })
    }

    /// Returns the state before the first input.
    pub fn start(&self) -> Window {
        Window(Plane::zeros(self.norm_weight.len(), 0))
    }

    /// Takes `[C, T]`, gives the outputs that became final: whole windows.
    pub fn push(&self, window: &mut Window, x: &Plane, flow: Flow) -> Plane {
        let seen = window.0.then(x);
        let mut done = 0;
        let mut y = Plane::zeros(seen.n_channels(), 0);
        while seen.len() - done >= self.window || (flow == Flow::Last && done < seen.len()) {
            let end = (done + self.window).min(seen.len());
            y = y.then(&self.attend(&seen.slice(done, end)));
            done = end;
        }
        window.0 = seen.slice(done, seen.len());
        y
    }

    /// Returns one window, `[C, N]` with N at most the window's size.
    fn attend(&self, x: &Plane) -> Plane {
        let n_channels = x.n_channels();
        let mut qkv = self.to_qkv.valid(&self.normalised(x));
        for head_start in (0..2 * n_channels).step_by(HEAD_DIM) {
            self.rotate(&mut qkv, head_start);
        }
        let mut mixed = Plane::zeros(n_channels, x.len());
        for head_start in (0..n_channels).step_by(HEAD_DIM) {
            for query in 0..x.len() {
                let weights = softmax((0..x.len()).map(|key| {
                    let product = |d: usize| qkv.row(head_start + d)[query] * qkv.row(n_channels + head_start + d)[key];
                    (0..HEAD_DIM).map(product).sum::<f32>() / (HEAD_DIM as f32).sqrt()
                }));
                for d in head_start..head_start + HEAD_DIM {
                    let values = qkv.row(2 * n_channels + d);
                    mixed.row_mut(d)[query] = weights.iter().zip(values).map(|(weight, value)| weight * value).sum();
                }
            }
        }
        let mut y = self.to_out.valid(&mixed);
        y.data_mut().iter_mut().zip(x.data()).for_each(|(y, x)| *y += x);
        y
    }

    /// Computes the layer norm over channels at each time step.
    fn normalised(&self, x: &Plane) -> Plane {
        let n_channels = x.n_channels();
        let mut y = Plane::zeros(n_channels, x.len());
        for t in 0..x.len() {
            let column = || (0..n_channels).map(|channel| f64::from(x.row(channel)[t]));
            let mean = column().sum::<f64>() / n_channels as f64;
            let variance = column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n_channels as f64;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            for (channel, x) in column().enumerate() {
                y.row_mut(channel)[t] =
                    ((x - mean) * scale) as f32 * self.norm_weight[channel] + self.norm_bias[channel];
            }
        }
        y
    }

    /// Turns the pairs (d, d + 32) of one head by the angle of their position.
    fn rotate(&self, x: &mut Plane, head_start: usize) {
        let half = HEAD_DIM / 2;
        for d in 0..half {
            for t in 0..x.len() {
                let [cos, sin] = self.rotation[t * half + d];
                let (a, b) = (x.row(head_start + d)[t], x.row(head_start + half + d)[t]);
                x.row_mut(head_start + d)[t] = a * cos - b * sin;
                x.row_mut(head_start + half + d)[t] = b * cos + a * sin;
            }
        }
    }
}

fn softmax(scores: impl Iterator<Item = f32>) -> Vec<f32> {
    let scores: Vec<f32> = scores.collect();
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}
