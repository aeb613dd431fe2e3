//! Our own engine for chains of one-dimensional convolutions, as in vocoders and codecs: dense,
//! depthwise, dilated and transposed convolutions, Snake, activation curves and residual branches.
//!
//! A signal passes through all layers in short time steps, and each layer stores the tail of its
//! input. Activations thus stay in the processor's cache, memory does not grow with the signal, and
//! the result is bit-identical for every step length and thread count. Snake is fused into the
//! kernel that follows it.
//!
//! # Why rows and not whole signals?
//!
//! Each layer returns the rows that became final and keeps the tail of its input. No row is
//! computed twice, a long signal takes the memory of a short one, and a step fits into the cache,
//! where an ordinary engine sends every layer through main memory.

mod layer;
mod plain;
mod stage;
#[cfg(test)]
mod tests;

use melisma_kernels::layer::step::Rows;
use melisma_kernels::{Budget, Queue};

use crate::engine::{Engine, EngineName, Operator, Options, Port, Ports, check_inputs, rten};
use crate::format::Value;
use crate::onnx::pass;
use crate::onnx::{Dim, Model};
use crate::{DType, Error, Result};
use layer::{Builder, Flow, Layer, Shared};
use stage::Stage;

/// The engine's name.
pub const NAME: EngineName = EngineName::MelismaChain;
/// The activations of a step should fit into the second-level cache of a few cores.
const STEP_BYTES: usize = 4 << 20;
/// The most that the steps of a signal take: what layers pass on, receive and keep, and the kernels' scratch memory.
pub(crate) const MOST_STEP_BYTES: u64 = 4 * STEP_BYTES as u64;

/// A model in our engine.
#[derive(Debug)]
pub struct Chain {
    layers: Vec<Layer>,
    queue: Queue,
    rows: Rows,
    arena: Vec<f32>,
    now: Vec<f32>,
    next: Vec<f32>,
    /// Latents per step.
    step_len: usize,
    /// Outputs per latent.
    rate: usize,
    n_in: usize,
    n_out: usize,
    ports: Ports,
}

/// Returns whether the graph of `model` is a chain that this engine takes.
pub fn takes(model: &Model) -> bool {
    Port::inputs(model).is_ok_and(|inputs| stages(model).is_ok_and(|stages| channels(&inputs, &stages).is_ok()))
}

/// Prepares a model; packed weights and scratch memory count against `budget`.
///
/// # Errors
/// `Unsupported` names the operators and nodes that do not fit a chain; `Memory` if the budget is
/// too small.
pub fn build(model: &Model, options: &Options, budget: &Budget) -> Result<Chain> {
    let ports = Ports::of(model)?;
    let stages = stages(model)?;
    let n_in = channels(&ports.inputs, &stages)?;
    let device = super::device(options)?;
    let mut builder = Builder { device: &device, budget, scale: 1, n_channels: n_in, slot_len: 0 };
    let layers = builder.layers(&stages)?;
    let (rate, n_out, slot_len) = (builder.scale, builder.n_channels, builder.slot_len);
    let widest = layers.iter().map(Layer::widest).max().unwrap_or(n_in).max(1);
    Ok(Chain {
        rows: Rows::new(&device, budget, 1, 1)?,
        queue: device.queue(budget)?,
        arena: vec![0.0; slot_len],
        now: Vec::new(),
        next: Vec::new(),
        step_len: (STEP_BYTES / 4 / widest).clamp(1, 4096),
        rate,
        layers,
        n_in,
        n_out,
        ports,
    })
}

fn stages(model: &Model) -> Result<Vec<Stage>> {
    let mut model = model.clone();
    pass::fold_constants(&mut model, &rten::evaluate)?;
    pass::fuse_snake(&mut model);
    stage::stages(&model)
}

/// Returns the channels of the input, which must be `f32[B, C, T]`.
fn channels(inputs: &[Port], stages: &[Stage]) -> Result<usize> {
    let [Port { dtype: DType::F32, shape: Some(axes), .. }] = inputs else {
        return Err(Error::unsupported(format!("{NAME}: the input is not f32 with three axes")));
    };
    let first = stages.iter().find_map(|stage| match stage {
        Stage::Conv(conv) => Some(conv.n_in),
        Stage::Transposed(up) => Some(up.n_in),
        Stage::Snake(alpha) => Some(alpha.len()),
        _ => None,
    });
    match (axes.as_slice(), first) {
        ([_, Dim::Known(known), _], first)
            if usize::try_from(*known).ok().is_some_and(|n| n > 0 && first.is_none_or(|first| first == n)) =>
        {
            Ok(*known as usize)
        }
        ([_, Dim::Known(known), _], _) => Err(Error::unsupported(format!("{NAME}: cannot take {known} channels"))),
        ([_, _, _], Some(first)) => Ok(first),
        _ => Err(Error::unsupported(format!("{NAME}: the input is not f32 with three axes"))),
    }
}

impl Chain {
    /// Sets how many latents pass through the layers at once: fewer take less memory, with the same
    /// result.
    #[must_use]
    pub fn with_step(mut self, n_latents: usize) -> Self {
        self.step_len = n_latents.max(1);
        self
    }

    /// Returns the number of latents that an output depends on before and after its own, rounded up.
    pub fn reach(&self) -> usize {
        let ahead = self.layers.iter().map(Layer::ahead);
        ahead.map(|(rows, scale)| rows as f64 / scale as f64).sum::<f64>().ceil() as usize
    }

    /// Converts one signal `[C_in, T]` to `[C_out, T · rate]`.
    fn signal(&mut self, x: &[f32], y: &mut [f32], mut times: Option<&mut Vec<Operator>>) -> Result<()> {
        let len = x.len() / self.n_in;
        self.arena.fill(0.0);
        self.layers.iter_mut().try_for_each(|layer| layer.reset(len))?;
        let mut done = 0;
        for start in (0..len).step_by(self.step_len) {
            let end = len.min(start.saturating_add(self.step_len));
            self.now.clear();
            self.now.resize((end - start) * self.n_in, 0.0);
            for (channel, x) in x.chunks_exact(len).enumerate() {
                for (to, &value) in self.now[channel..].iter_mut().step_by(self.n_in).zip(&x[start..end]) {
                    *to = value;
                }
            }
            let times = times.as_deref_mut();
            let mut shared = Shared { queue: &self.queue, rows: &mut self.rows, arena: &mut self.arena, times };
            let flow = if end == len { Flow::Last } else { Flow::More };
            layer::run(&mut self.layers, &mut shared, [&mut self.now, &mut self.next], flow)?;
            let n_rows = self.now.len() / self.n_out;
            for (channel, y) in y.chunks_exact_mut(len * self.rate).enumerate() {
                for (y, &value) in
                    y[done..done + n_rows].iter_mut().zip(self.now.iter().skip(channel).step_by(self.n_out))
                {
                    *y = value;
                }
            }
            done += n_rows;
        }
        Ok(())
    }
}

impl Engine for Chain {
    fn name(&self) -> EngineName {
        NAME
    }

    fn ports(&self) -> &Ports {
        &self.ports
    }

    fn execute(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        self.batch(inputs, None)
    }

    fn profile(&mut self, inputs: &[Value]) -> Result<(Vec<Value>, Vec<Operator>)> {
        check_inputs(self.inputs(), inputs)?;
        let mut times = Vec::new();
        Ok((self.batch(inputs, Some(&mut times))?, times))
    }
}

impl Chain {
    fn batch(&mut self, inputs: &[Value], mut times: Option<&mut Vec<Operator>>) -> Result<Vec<Value>> {
        let &[batch, n_in, len] = inputs[0].shape() else {
            return Err(Error::invalid(format!("{NAME}: expected 3 axes, found {}", inputs[0].shape().len())));
        };
        if n_in != self.n_in {
            return Err(Error::invalid(format!("{NAME}: an input of {n_in} channels; the model has {}", self.n_in)));
        }
        let shape = [batch, self.n_out, len.saturating_mul(self.rate)];
        let mut output = Value::zeros(DType::F32, &shape)?;
        if output.is_empty() || inputs[0].is_empty() {
            return Ok(vec![output]);
        }
        let signals = inputs[0].as_slice::<f32>()?.chunks_exact(n_in * len);
        for (x, y) in signals.zip(output.as_mut_slice::<f32>()?.chunks_exact_mut(shape[1] * shape[2])) {
            self.signal(x, y, times.as_deref_mut())?;
        }
        Ok(vec![output])
    }
}
