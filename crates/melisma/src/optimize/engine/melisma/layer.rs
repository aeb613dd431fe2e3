//! Stages as layers: each on the fastest kernel that computes it, weights packed once, all of them in steps over time.
//!
//! Activations are `[T, C]`. A layer's output is behind its input by its `lag`, and rows that lie before or after the
//! signal are zero, as the padding of the next layer is.

use melisma_kernels::depthwise::{self, Depthwise};
use melisma_kernels::head::{self, Head};
use melisma_kernels::pointwise::{self, Mode, Pointwise};
use melisma_kernels::residual::{self, Residual};
use melisma_kernels::step::{Activations, Arena, Rounding, Step, Timeline};
use melisma_kernels::upsample::{self, Upsample};
use melisma_kernels::{Budget, Device, Queue, View};

use super::chain::{Conv, Curve, Stage, Transposed};
use super::plain::{Delay, Unfold, curve, snake};
use crate::{Error, Result};

/// A layer, its floats per latent on both sides, and where its output lies in time.
#[derive(Debug)]
pub(super) struct Layer {
    work: Work,
    /// Where its state begins in the arena.
    offset: usize,
    pub width_in: usize,
    pub width_out: usize,
    pub timeline: Timeline,
}

#[derive(Debug)]
enum Work {
    Depthwise(depthwise::Plan),
    Pointwise(pointwise::Plan),
    Upsample(upsample::Plan),
    Residual(residual::Plan),
    Head(head::Plan),
    /// A dense convolution: neighbours side by side, then one product.
    Dense(Unfold, pointwise::Plan),
    Snake(Vec<f32>),
    Curve(Curve),
    /// x + f(x) for any f.
    Branch(Vec<Layer>, Delay),
}

/// What is decided while layer after layer is prepared.
pub(super) struct Builder<'a> {
    pub device: &'a Device,
    pub budget: &'a Budget,
    pub timeline: Timeline,
    pub n_channels: usize,
    pub slot_len: usize,
}

impl Builder<'_> {
    /// Prepares stages, as many together as a kernel takes.
    pub(super) fn layers(&mut self, mut stages: &[Stage]) -> Result<Vec<Layer>> {
        let mut layers = Vec::new();
        while let [first, rest @ ..] = stages {
            let (layer, n_used) = match (first, rest) {
                (Stage::Snake(alpha), [Stage::Transposed(up), ..]) => (self.upsample(up, alpha)?, 2),
                (Stage::Snake(alpha), [Stage::Conv(conv), Stage::Curve(Curve::Tanh), ..]) if is_head(conv) => {
                    (self.head(conv, alpha)?, 3)
                }
                (Stage::Conv(conv), [Stage::Curve(Curve::Tanh), ..]) if is_head(conv) => {
                    (self.head(conv, &vec![0.0; conv.n_in])?, 2)
                }
                (Stage::Transposed(up), _) => (self.upsample(up, &vec![0.0; up.n_in])?, 1),
                (Stage::Residual(inner), _) => (self.residual(inner)?, 1),
                (Stage::Conv(conv), _) => (self.conv(conv)?, 1),
                (Stage::Snake(alpha), _) => (self.place(Work::Snake(alpha.clone()), 0, alpha.len())?, 1),
                (Stage::Curve(curve), _) => (self.place(Work::Curve(*curve), 0, self.n_channels)?, 1),
            };
            layers.push(layer);
            stages = &stages[n_used..];
        }
        Ok(layers)
    }

    /// Takes a layer whose output has `n_out` channels at the timeline of now.
    fn place(&mut self, work: Work, state_len: usize, n_out: usize) -> Result<Layer> {
        let offset = self.slot_len;
        self.slot_len += state_len;
        let width_in = self.timeline.rate * self.n_channels;
        let layer = Layer { work, offset, width_in, width_out: self.timeline.rate * n_out, timeline: self.timeline };
        self.n_channels = n_out;
        Ok(layer)
    }

    fn expect(&self, n_in: usize) -> Result<()> {
        if n_in == self.n_channels {
            return Ok(());
        }
        Err(Error::invalid(format!("{}: {} channels meet a layer of {n_in}", super::NAME, self.n_channels)))
    }

    fn conv(&mut self, conv: &Conv) -> Result<Layer> {
        self.expect(conv.n_in)?;
        self.timeline.lag += conv.n_taps / 2 * conv.dilation;
        let timeline = self.timeline;
        let Conv { n_in, n_out, n_taps, dilation, groups, .. } = *conv;
        if groups == n_in && n_in == n_out && dilation == 1 && n_in > 1 {
            let layer = Depthwise { n_channels: n_in, n_taps, weight: &conv.weight, bias: &conv.bias, timeline };
            let plan = layer.plan(self.device, self.budget)?;
            let state_len = plan.state_len();
            return self.place(Work::Depthwise(plan), state_len, n_out);
        }
        let unfold = Unfold::new(n_in, n_taps, dilation);
        // [C_out, C_in / groups, K] to [C_out, K, C_in], zero between groups.
        let mut weight = vec![0.0; n_out * n_taps * n_in];
        let per_group = n_in / groups;
        for (at, &value) in conv.weight.iter().enumerate() {
            let (output, input, tap) = (at / (per_group * n_taps), at / n_taps % per_group, at % n_taps);
            let input = output / (n_out / groups) * per_group + input;
            weight[(output * n_taps + tap) * n_in + input] = value;
        }
        let layer = Pointwise {
            n_in: n_in * n_taps,
            n_out,
            weight: &weight,
            bias: Some(&conv.bias),
            mode: Mode::Plain,
            timeline,
            rounding: Rounding::Off,
        };
        let plan = layer.plan(self.device, self.budget)?;
        let work = if n_taps == 1 { Work::Pointwise(plan) } else { Work::Dense(unfold, plan) };
        self.place(work, 0, n_out)
    }

    fn upsample(&mut self, up: &Transposed, alpha: &[f32]) -> Result<Layer> {
        self.expect(up.n_in)?;
        let Transposed { n_in, n_out, stride, .. } = *up;
        let width_in = self.timeline.rate * n_in;
        let Timeline { rate, lag } = self.timeline;
        let lag = lag.checked_mul(stride).map(|lag| lag + stride.div_ceil(2));
        let (Some(rate), Some(lag)) = (rate.checked_mul(stride).filter(|&rate| rate <= 1 << 20), lag) else {
            return Err(Error::unsupported(format!("{}: strides that multiply to more than 2^20", super::NAME)));
        };
        self.timeline = Timeline { rate, lag };
        // [C_in, C_out, 2 s] to [C_out, s, C_in, 2].
        let mut weight = vec![0.0; up.weight.len()];
        for (at, &value) in up.weight.iter().enumerate() {
            let (input, output, tap) = (at / (n_out * 2 * stride), at / (2 * stride) % n_out, at % (2 * stride));
            weight[((output * stride + tap % stride) * n_in + input) * 2 + tap / stride] = value;
        }
        let layer = Upsample {
            n_in,
            n_out,
            stride,
            alpha,
            weight: &weight,
            bias: &up.bias,
            timeline: self.timeline,
            rounding: Rounding::Off,
        };
        let plan = layer.plan(self.device, self.budget)?;
        let state_len = plan.state_len();
        let mut layer = self.place(Work::Upsample(plan), state_len, n_out)?;
        layer.width_in = width_in;
        Ok(layer)
    }

    fn head(&mut self, conv: &Conv, alpha: &[f32]) -> Result<Layer> {
        self.expect(conv.n_in)?;
        self.timeline.lag += 3;
        let (weight, bias, timeline) = (&conv.weight, conv.bias[0], self.timeline);
        let layer = Head { n_channels: conv.n_in, alpha, weight, bias, timeline };
        let plan = layer.plan(self.device, self.budget)?;
        let state_len = plan.state_len();
        self.place(Work::Head(plan), state_len, 1)
    }

    fn residual(&mut self, inner: &[Stage]) -> Result<Layer> {
        if let [Stage::Snake(alpha), Stage::Conv(wide), Stage::Snake(mix_alpha), Stage::Conv(mix)] = inner
            && is_unit(wide, mix)
        {
            self.expect(wide.n_in)?;
            self.timeline.lag += 3 * wide.dilation;
            let layer = Residual {
                n_channels: wide.n_in,
                dilation: wide.dilation,
                alpha,
                wide: &wide.weight,
                wide_bias: &wide.bias,
                mix_alpha,
                mix: &mix.weight,
                mix_bias: &mix.bias,
                timeline: self.timeline,
                rounding: Rounding::Off,
            };
            let plan = layer.plan(self.device, self.budget)?;
            let state_len = plan.state_len();
            return self.place(Work::Residual(plan), state_len, wide.n_in);
        }
        let (before, n_channels) = (self.timeline, self.n_channels);
        let layers = self.layers(inner)?;
        if self.timeline.rate != before.rate || self.n_channels != n_channels {
            return Err(Error::unsupported(format!("{}: a branch that changes its shape", super::NAME)));
        }
        let delay = Delay::new((self.timeline.lag - before.lag) * n_channels);
        self.place(Work::Branch(layers, delay), 0, n_channels)
    }
}

fn is_head(conv: &Conv) -> bool {
    conv.n_out == 1 && conv.n_taps == head::TAPS && conv.dilation == 1 && conv.groups == 1
}

fn is_unit(wide: &Conv, mix: &Conv) -> bool {
    let is_wide = wide.groups == wide.n_in && wide.n_in == wide.n_out && wide.n_taps == residual::TAPS;
    is_wide && mix.n_taps == 1 && mix.groups == 1 && mix.n_in == wide.n_in && mix.n_out == wide.n_in
}

/// What all layers of a step share.
pub(super) struct Shared<'a> {
    pub queue: &'a Queue,
    pub step: Step<'a>,
    pub arena: &'a mut [f32],
}

impl Layer {
    /// Forgets the signal before.
    pub(super) fn reset(&mut self) {
        match &mut self.work {
            Work::Dense(unfold, _) => unfold.reset(),
            Work::Branch(layers, delay) => {
                layers.iter_mut().for_each(Self::reset);
                delay.reset();
            }
            _ => {}
        }
    }

    /// One step: x `[T · rate_in, C_in]` to y `[T · rate, C_out]`.
    pub(super) fn run(&mut self, shared: &mut Shared<'_>, x: &[f32], y: &mut Vec<f32>) -> Result<()> {
        let Shared { queue, step, .. } = *shared;
        y.resize(step.n_latents * self.width_out, 0.0);
        let slot_len = shared.arena.len();
        let arena = Arena { floats: (&mut *shared.arena).into(), slot_len, offset: self.offset };
        let none = View::Host(&[]);
        match &mut self.work {
            Work::Depthwise(plan) => {
                plan.run(queue, step, arena, Activations { x: x.into(), y: y.as_mut_slice().into() })
            }
            Work::Pointwise(plan) => {
                plan.run(queue, step, none, Activations { x: x.into(), y: y.as_mut_slice().into() })
            }
            Work::Upsample(plan) => {
                plan.run(queue, step, arena, Activations { x: x.into(), y: y.as_mut_slice().into() })
            }
            Work::Residual(plan) => {
                plan.run(queue, step, arena, Activations { x: x.into(), y: y.as_mut_slice().into() })
            }
            Work::Head(plan) => plan.run(queue, step, arena, Activations { x: x.into(), y: y.as_mut_slice().into() }),
            Work::Dense(unfold, plan) => {
                let side_by_side = unfold.run(x);
                plan.run(queue, step, none, Activations { x: side_by_side.into(), y: y.as_mut_slice().into() })
            }
            Work::Snake(alpha) => {
                snake(alpha, x, y);
                Ok(())
            }
            Work::Curve(which) => {
                curve(*which, x, y);
                Ok(())
            }
            Work::Branch(layers, delay) => {
                let (mut now, mut next) = (x.to_vec(), Vec::new());
                for layer in layers {
                    layer.run(shared, &now, &mut next)?;
                    std::mem::swap(&mut now, &mut next);
                }
                delay.add(x, &now, y);
                Ok(())
            }
        }
    }

    /// The widest activation inside, in floats per latent.
    pub(super) fn widest(&self) -> usize {
        let inner = match &self.work {
            Work::Branch(layers, _) => layers.iter().map(Self::widest).max().unwrap_or(0),
            Work::Dense(unfold, _) => self.width_in * unfold.n_taps(),
            _ => 0,
        };
        inner.max(self.width_in).max(self.width_out)
    }
}
