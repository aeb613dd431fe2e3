//! Turns stages into layers. Each uses the fastest kernel that computes it, packs its weights once,
//! and runs in steps over time.
//!
//! Activations are `[T, C]`. A layer takes any number of rows and returns those that became final:
//! fewer at first, because it looks ahead, and the rest when the signal ends. No row is computed
//! twice or discarded.

use std::time::Instant;

use melisma_kernels::layer::depthwise::{self, Depthwise};
use melisma_kernels::layer::head::{self, Head};
use melisma_kernels::layer::pointwise::{self, Mode, Pointwise};
use melisma_kernels::layer::residual::{self, Residual};
use melisma_kernels::layer::step::{Activations, Arena, Rounding, Row, Rows, Step, Timeline};
use melisma_kernels::layer::strided::Strided;
use melisma_kernels::layer::upsample::{self, Upsample};
use melisma_kernels::{Budget, Device, Queue, View};

use super::plain::{Delay, Dilated, Unfold, curve, snake};
use super::stage::{Conv, Curve, Stage, Transposed};
use crate::engine::Operator;
use crate::{Error, Result};

/// A layer and its position in the signal.
#[derive(Debug)]
pub(super) struct Layer {
    work: Work,
    /// Offset of its state in the arena.
    offset: usize,
    n_in: usize,
    n_out: usize,
    /// Input rows per latent.
    scale: usize,
    /// Outputs per input, and how far they lag behind.
    timeline: Timeline,
    /// Input rows of the signal, and rows consumed so far.
    end: usize,
    taken: usize,
    n_steps: i64,
}

/// Whether more of the signal follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Last,
}

#[derive(Debug)]
enum Work {
    Depthwise(depthwise::Plan),
    Pointwise(pointwise::Plan),
    Upsample(upsample::Plan),
    Residual(residual::Plan),
    Head(head::Plan),
    Dilated(Dilated),
    /// A dense convolution: unfolds the neighbours, then computes one product.
    Dense(Unfold, pointwise::Plan),
    Snake(Vec<f32>),
    Curve(Curve),
    /// x + f(x) for any f.
    Branch(Vec<Layer>, Delay),
}

impl Work {
    /// Returns the graph operators that it implements.
    fn operator(&self) -> &'static str {
        match self {
            Self::Depthwise(_) | Self::Dilated(_) => "depthwise Conv",
            Self::Pointwise(_) | Self::Dense(..) => "Conv",
            Self::Upsample(_) => "Snake + ConvTranspose",
            Self::Residual(_) => "residual unit",
            Self::Head(_) => "Snake + Conv + Tanh",
            Self::Snake(_) => "Snake",
            Self::Curve(Curve::Tanh) => "Tanh",
            Self::Curve(Curve::Relu) => "Relu",
            Self::Curve(Curve::LeakyRelu(_)) => "LeakyRelu",
            Self::Branch(..) => "branch",
        }
    }
}

/// One output per input, without lag.
const SAME: Timeline = Timeline { rate: 1, lag: 0 };

/// State shared while the layers are prepared one after another.
pub(super) struct Builder<'a> {
    pub device: &'a Device,
    pub budget: &'a Budget,
    /// Rows per latent.
    pub scale: usize,
    pub n_channels: usize,
    pub slot_len: usize,
}

impl Builder<'_> {
    /// Prepares stages, fusing as many as a kernel can take.
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
                (Stage::Snake(alpha), _) => (self.place(Work::Snake(alpha.clone()), SAME, 0, alpha.len())?, 1),
                (Stage::Curve(curve), _) => (self.place(Work::Curve(*curve), SAME, 0, self.n_channels)?, 1),
            };
            layers.push(layer);
            stages = &stages[n_used..];
        }
        Ok(layers)
    }

    /// Adds a layer whose output has `n_out` channels.
    fn place(&mut self, work: Work, timeline: Timeline, state_len: usize, n_out: usize) -> Result<Layer> {
        let scale = self.scale.checked_mul(timeline.rate).filter(|&scale| scale <= 1 << 20);
        let scale = scale
            .ok_or_else(|| Error::unsupported(format!("{}: strides that multiply to more than 2^20", super::NAME)))?;
        let (offset, n_in) = (self.slot_len, self.n_channels);
        let layer = Layer { work, offset, n_in, n_out, scale: self.scale, timeline, end: 0, taken: 0, n_steps: 0 };
        self.slot_len += state_len;
        self.n_channels = n_out;
        self.scale = scale;
        Ok(layer)
    }

    fn expect(&self, n_in: usize) -> Result<()> {
        if n_in == self.n_channels {
            return Ok(());
        }
        Err(Error::invalid(format!("{}: a layer takes {n_in} channels, not {}", super::NAME, self.n_channels)))
    }

    fn conv(&mut self, conv: &Conv) -> Result<Layer> {
        self.expect(conv.n_in)?;
        let timeline = Timeline { rate: 1, lag: conv.n_taps / 2 * conv.dilation };
        let Conv { n_in, n_out, n_taps, dilation, groups, .. } = *conv;
        if groups == n_in && n_in == n_out && dilation == 1 && n_in > 1 {
            let layer = Depthwise { n_channels: n_in, n_taps, weight: &conv.weight, bias: &conv.bias, timeline };
            let plan = layer.plan(self.device, self.budget)?;
            let state_len = plan.state_len();
            return self.place(Work::Depthwise(plan), timeline, state_len, n_out);
        }
        if groups > 1 {
            return self.place(Work::Dilated(Dilated::new(conv)), timeline, 0, n_out);
        }
        let unfold = Unfold::new(n_in, n_taps, dilation);
        // [C_out, C_in, K] to [C_out, K, C_in].
        let mut weight = vec![0.0; conv.weight.len()];
        for (at, &value) in conv.weight.iter().enumerate() {
            let (output, input, tap) = (at / (n_in * n_taps), at / n_taps % n_in, at % n_taps);
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
        self.place(work, timeline, 0, n_out)
    }

    fn upsample(&mut self, up: &Transposed, alpha: &[f32]) -> Result<Layer> {
        self.expect(up.n_in)?;
        let Transposed { n_in, n_out, stride, .. } = *up;
        let timeline = Timeline { rate: stride, lag: stride.div_ceil(2) };
        // [C_in, C_out, 2 s] to [C_out, s, C_in, 2].
        let mut weight = vec![0.0; up.weight.len()];
        for (at, &value) in up.weight.iter().enumerate() {
            let (input, output, tap) = (at / (n_out * 2 * stride), at / (2 * stride) % n_out, at % (2 * stride));
            weight[((output * stride + tap % stride) * n_in + input) * 2 + tap / stride] = value;
        }
        let rounding = Rounding::Off;
        let layer = Strided { n_in, n_out, stride, alpha, weight: &weight, bias: &up.bias, timeline, rounding };
        let plan = Upsample(layer).plan(self.device, self.budget)?;
        let state_len = plan.state_len();
        self.place(Work::Upsample(plan), timeline, state_len, n_out)
    }

    fn head(&mut self, conv: &Conv, alpha: &[f32]) -> Result<Layer> {
        self.expect(conv.n_in)?;
        let (weight, bias, timeline) = (&conv.weight, conv.bias[0], Timeline { rate: 1, lag: head::TAPS / 2 });
        let layer = Head { n_channels: conv.n_in, alpha, weight, bias, timeline };
        let plan = layer.plan(self.device, self.budget)?;
        let state_len = plan.state_len();
        self.place(Work::Head(plan), timeline, state_len, 1)
    }

    fn residual(&mut self, inner: &[Stage]) -> Result<Layer> {
        if let [Stage::Snake(alpha), Stage::Conv(wide), Stage::Snake(mix_alpha), Stage::Conv(mix)] = inner
            && is_unit(wide, mix)
        {
            self.expect(wide.n_in)?;
            let timeline = Timeline { rate: 1, lag: residual::TAPS / 2 * wide.dilation };
            let layer = Residual {
                n_channels: wide.n_in,
                dilation: wide.dilation,
                alpha,
                wide: &wide.weight,
                wide_bias: &wide.bias,
                mix_alpha,
                mix: &mix.weight,
                mix_bias: &mix.bias,
                timeline,
                rounding: Rounding::Off,
            };
            let plan = layer.plan(self.device, self.budget)?;
            let state_len = plan.state_len();
            return self.place(Work::Residual(plan), timeline, state_len, wide.n_in);
        }
        let (scale, n_channels) = (self.scale, self.n_channels);
        let layers = self.layers(inner)?;
        if self.scale != scale || self.n_channels != n_channels {
            return Err(Error::unsupported(format!("{}: a branch changes the shape of its signal", super::NAME)));
        }
        self.place(Work::Branch(layers, Delay::default()), SAME, 0, n_channels)
    }
}

fn is_head(conv: &Conv) -> bool {
    conv.n_out == 1 && conv.n_taps == head::TAPS && conv.dilation == 1 && conv.groups == 1
}

fn is_unit(wide: &Conv, mix: &Conv) -> bool {
    let is_wide = wide.groups == wide.n_in && wide.n_in == wide.n_out && wide.n_taps == residual::TAPS;
    is_wide && mix.n_taps == 1 && mix.groups == 1 && mix.n_in == wide.n_in && mix.n_out == wide.n_in
}

/// State that all layers of a step share.
pub(super) struct Shared<'a> {
    pub queue: &'a Queue,
    pub rows: &'a mut Rows,
    pub arena: &'a mut [f32],
    /// Times of the layers, if recorded.
    pub times: Option<&'a mut Vec<Operator>>,
}

/// Passes the rows in `now` through the layers; `next` is scratch memory.
pub(super) fn run(
    layers: &mut [Layer],
    shared: &mut Shared<'_>,
    [now, next]: [&mut Vec<f32>; 2],
    flow: Flow,
) -> Result<()> {
    for layer in layers {
        layer.run(shared, now, next, flow)?;
        std::mem::swap(now, next);
    }
    Ok(())
}

impl Layer {
    /// Discards the previous signal; the next has `len` latents.
    pub(super) fn reset(&mut self, len: usize) -> Result<()> {
        let end = len.checked_mul(self.scale).filter(|&end| end < 1 << 39);
        self.end = end.ok_or_else(|| Error::invalid(format!("{}: {len} latents are too many", super::NAME)))?;
        (self.taken, self.n_steps) = (0, 0);
        match &mut self.work {
            Work::Dense(unfold, _) => unfold.reset(),
            Work::Dilated(layer) => layer.reset(),
            Work::Branch(layers, delay) => {
                layers.iter_mut().try_for_each(|layer| layer.reset(len))?;
                delay.reset();
            }
            _ => {}
        }
        Ok(())
    }

    /// Consumes rows of x `[n, C_in]`, which padding may extend, and writes the rows that became
    /// final to y.
    fn run(&mut self, shared: &mut Shared<'_>, x: &mut Vec<f32>, y: &mut Vec<f32>, flow: Flow) -> Result<()> {
        if let Work::Branch(layers, delay) = &mut self.work {
            delay.take(x);
            run(layers, shared, [&mut *x, &mut *y], flow)?;
            delay.add(x, y);
            return Ok(());
        }
        let Timeline { rate, lag } = self.timeline;
        if flow == Flow::Last {
            x.resize(x.len() + lag.div_ceil(rate) * self.n_in, 0.0);
        }
        let n_rows = x.len() / self.n_in;
        y.clear();
        y.resize(n_rows * rate * self.n_out, 0.0);
        let row = Row { start: self.taken as i64, end: self.end as i64, n_steps: self.n_steps, ..Row::default() };
        if n_rows > 0 {
            shared.rows.set(shared.queue, &[row])?;
            let start = Instant::now();
            self.kernel(shared, n_rows, x, y)?;
            if let Some(times) = &mut shared.times {
                let seconds = start.elapsed().as_secs_f64();
                Operator::add(times, [Operator { name: self.work.operator().to_owned(), seconds, calls: 1 }]);
            }
            self.n_steps += 1;
            self.taken += n_rows;
        }
        let live = self.timeline.live(&row, n_rows);
        y.truncate(live.end * self.n_out);
        y.drain(..live.start * self.n_out);
        Ok(())
    }

    fn kernel(&mut self, shared: &mut Shared<'_>, n_rows: usize, x: &[f32], y: &mut [f32]) -> Result<()> {
        let queue = shared.queue;
        let step = Step { rows: shared.rows, n_latents: n_rows };
        let slot_len = shared.arena.len();
        let arena = Arena { floats: (&mut *shared.arena).into(), slot_len, offset: self.offset };
        let (none, activations) = (View::Host(&[]), Activations { x: x.into(), y: y.into() });
        match &mut self.work {
            Work::Depthwise(plan) => plan.run(queue, step, arena, activations),
            Work::Pointwise(plan) => plan.run(queue, step, none, activations),
            Work::Upsample(plan) => plan.run(queue, step, arena, activations),
            Work::Residual(plan) => plan.run(queue, step, arena, activations),
            Work::Head(plan) => plan.run(queue, step, arena, activations),
            Work::Dense(unfold, plan) => {
                plan.run(queue, step, none, Activations { x: unfold.run(x).into(), ..activations })
            }
            Work::Dilated(layer) => activations.y.host().map(|y| layer.run(x, y)),
            Work::Snake(alpha) => activations.y.host().map(|y| snake(alpha, x, y)),
            Work::Curve(which) => activations.y.host().map(|y| curve(*which, x, y)),
            Work::Branch(..) => Ok(()),
        }
    }

    /// Returns the widest intermediate activation, in floats per latent.
    pub(super) fn widest(&self) -> usize {
        let inner = match &self.work {
            Work::Branch(layers, _) => layers.iter().map(Self::widest).max().unwrap_or(0),
            Work::Dense(unfold, _) => self.scale * self.n_in * unfold.n_taps(),
            _ => 0,
        };
        inner.max(self.scale * self.n_in).max(self.scale * self.timeline.rate * self.n_out)
    }

    /// Returns the lookahead in latents, as a fraction: rows, and rows per latent.
    pub(super) fn ahead(&self) -> (usize, usize) {
        match &self.work {
            Work::Branch(layers, _) => {
                let rows = layers.iter().map(|layer| layer.ahead().0).sum();
                (rows, self.scale)
            }
            _ => (self.timeline.lag, self.scale * self.timeline.rate),
        }
    }
}
