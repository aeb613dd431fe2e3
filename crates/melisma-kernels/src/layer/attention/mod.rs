//! `attention`: softmax(q kᵀ / √D) v inside non-overlapping windows, in heads of D channels, with
//! rotary positions counted from each window's start. qkv `[B, T, 3 C]` (q, then k, then v), x,
//! mixed and skip `[B, T, C]`.
//!
//! Latent p attends to the keys p' with p' div W = p div W that exist (0 ≤ p' < end). q and k are
//! rotated first: for i < D/2 and the angle φ = (p mod W) · 10000^(-2i/D), (a, b) = (q\[i\], q[i +
//! D/2]) become (a cos φ - b sin φ, b cos φ + a sin φ). In each row, a score is summed in 16 lanes
//! d mod 16, added in halves; the softmax subtracts the largest score, and keys are summed in time
//! order. This is SNAC's LocalMHA without its norm and projections.
//!
//! The first latent of a window waits for the last, so the output is always W - 1 rows behind the
//! input; the skip is x at the output's time. Both are 0 where the timeline has no output. State:
//! [k | v] of the last 2 (W - 1) inputs, [q | x] of the last W - 1. Results on different devices
//! agree within 1e-5 of the largest |v|.

pub(crate) mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::step::{Arena, Step, Timeline};
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// Local attention.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// C.
    pub n_channels: usize,
    /// D, even; divides C.
    pub head_dim: usize,
    /// W.
    pub window: usize,
    /// Timeline of the output: one row for each latent, the input's lag plus W - 1.
    pub timeline: Timeline,
}

/// The inputs and outputs of a step.
#[derive(Debug)]
pub struct Pass<'a> {
    /// `[B, T, 3 C]`
    pub qkv: View<'a, f32>,
    /// `[B, T, C]`
    pub x: View<'a, f32>,
    /// `[B, T, C]`
    pub mixed: ViewMut<'a, f32>,
    /// `[B, T, C]`
    pub skip: ViewMut<'a, f32>,
}

/// Attention prepared for one device.
#[derive(Debug)]
pub struct Plan {
    attention: Attention,
    state_len: usize,
    on: OnDevice<cpu::Prepared, Box<cuda::Prepared>>,
}

impl Attention {
    /// Returns cos φ and sin φ for every position of a window and every i, `[W, D/2]`.
    pub fn rotation(&self) -> Vec<[f32; 2]> {
        let half = self.head_dim / 2;
        let angle = |position: usize, index: usize| {
            let frequency = 1.0 / 10_000_f32.powf(index as f32 / half as f32);
            let (sin, cos) = (position as f32 * frequency).sin_cos();
            [cos, sin]
        };
        (0..self.window).flat_map(|position| (0..half).map(move |index| angle(position, index))).collect()
    }

    /// Prepares the layer on `device`.
    ///
    /// # Errors
    /// The sizes do not match, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let Attention { n_channels, head_dim, window, timeline } = *self;
        let heads_fit = head_dim > 0 && head_dim.is_multiple_of(2) && n_channels.is_multiple_of(head_dim);
        if !heads_fit || window == 0 || timeline.rate != 1 || timeline.lag < window - 1 {
            return Err(Error::invalid(format!("attention: {self:?} is impossible")));
        }
        let on = OnDevice::new(
            device,
            |_| Ok(cpu::Prepared::new(self)),
            |cuda| cuda::Prepared::new(self, cuda, budget).map(Box::new),
        )?;
        let state_len = match &on {
            OnDevice::Cpu(_) => 3 * (window - 1) * 2 * n_channels,
            OnDevice::Cuda(prepared) => prepared.state_len(),
        };
        Ok(Plan { attention: *self, state_len, on })
    }
}

impl Plan {
    /// Returns the number of floats of state per slot.
    pub fn state_len(&self) -> usize {
        self.state_len
    }

    /// Runs one step.
    ///
    /// # Errors
    /// A view's length or place does not match the step, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        let n_channels = self.attention.n_channels;
        step.check("attention: qkv", pass.qkv.len(), 1, 3 * n_channels)?;
        step.check("attention: x", pass.x.len(), 1, n_channels)?;
        step.check("attention: mixed", pass.mixed.len(), 1, n_channels)?;
        step.check("attention: skip", pass.skip.len(), 1, n_channels)?;
        arena.check("attention", step.rows, self.state_len)?;
        let _span = kernel_span!(queue, "attention", [pass.x.len()], 24 * pass.x.len());
        match self.on.with(queue, "attention")? {
            Pair::Cpu(prepared, queue) => prepared.run(queue, step, arena, pass),
            Pair::Cuda(prepared, queue) => prepared.run(queue, step, arena, pass),
        }
    }
}
