//! `quantize`: latents to codes of all levels, the encoding half of SNAC's residual vector quantiser. x `[B, T, C]`,
//! codes `[B, F, S]`.
//!
//! A frame covers L latents and has S codes in a row, T = F · L; `places` say where each level's
//! codes are, as in [`embed`](super::embed). The residual r of a frame starts as its latents. Each
//! level cuts r into groups of `stride` latents and takes one code per group:
//!
//! m\[c\] = (Σ_t r[t, c]) / stride, v\[d\] = Σ_c W_in[d, c] · m\[c\] + b_in\[d\], u = v / max(|v|, 1e-12),
//! code = argmax_n Σ_d u\[d\] · codebook\[n, d\] / max(|codebook\[n\]|, 1e-12), the first of equals,
//! r[t, c] -= b_out\[c\] + Σ_d W_out[c, d] · codebook\[code, d\] for the latents t of the group.
//!
//! Every sum has one order, and all multiply-adds are fused. Σ_t, Σ_d and |v|² ascend; Σ_c is held
//! in 32 lanes, c mod 32, added in halves (i and i + 16, ..., i + 1). So codes and margins do not
//! depend on threads, batch, steps, instruction set or device, bit for bit.
//!
//! The margin of a code is its cosine minus the next best: where it is near 0, other orders of
//! summation may choose that other code. A codebook of one code has the margin ∞. A frame with NaN
//! gets codes inside the codebooks, and margins that are NaN where a level saw it.
//!
//! Output frame f of a step is frame start / L - ⌈lag / L⌉ + f of the stream. Frames outside the
//! stream have codes and margins of 0. State: the last L ⌈lag / L⌉ - lag latents.
//!
//! L = 2, one level with stride 2, C = D = 1, all weights 1 and biases 0, codebook (-3, 5): the
//! latents (1, 2) have the mean 1.5, u = 1 and the cosines (-1, 1). The code is 1, the margin 2.
//!
//! # Why no tensor cores?
//!
//! The search is 0.1 % of the encoder's operations. Plain FP32 chains cost next to nothing and give
//! the CPU's codes; rounded products would choose other codes wherever two cosines are close.

pub(crate) mod cpu;
pub(crate) mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::cuda::MemoryArgument;
use crate::layer::step::{Arena, Step, Timeline};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// Lanes of a sum over channels.
const SUM_LANES: usize = 32;

/// Floats of a codebook at most: the CPU counts blocks of 16 codes in floats, a GPU counts floats in 32 bits.
const MAX_FLOATS: usize = 1 << 28;

/// One level with its codebook.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    /// Latents per code.
    pub stride: usize,
    /// The positions of the level's codes in a frame, L / `stride` of them.
    pub places: &'a [usize],
    /// `[N, D]`
    pub codebook: &'a [f32],
    /// `[D, C]`
    pub in_weight: &'a [f32],
    /// `[D]`
    pub in_bias: &'a [f32],
    /// `[C, D]`
    pub out_weight: &'a [f32],
    /// `[C]`
    pub out_bias: &'a [f32],
}

/// All levels.
#[derive(Debug, Clone, Copy)]
pub struct Quantize<'a> {
    /// C.
    pub n_channels: usize,
    /// D.
    pub dim: usize,
    /// L.
    pub frame_latents: usize,
    /// Coarse to fine.
    pub levels: &'a [Level<'a>],
    /// Lag of the input behind the stream, in latents.
    pub lag: usize,
}

/// The input and the outputs of a step.
#[derive(Debug)]
pub struct Pass<'a> {
    /// `[B, T, C]`
    pub x: View<'a, f32>,
    /// `[B, T / L, S]`
    pub codes: ViewMut<'a, i32>,
    /// `[B, T / L, S]`, if wanted.
    pub margins: Option<ViewMut<'a, f32>>,
}

/// Levels prepared for one device.
#[derive(Debug)]
pub struct Plan {
    shape: Shape,
    state_len: usize,
    on: OnDevice<cpu::Prepared, Box<cuda::Prepared>>,
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy)]
struct Shape {
    n_channels: usize,
    dim: usize,
    frame_latents: usize,
    frame_codes: usize,
    /// Latents that it remembers.
    n_past: usize,
    /// Timeline of the latents whose codes a step gives.
    timeline: Timeline,
}

impl Quantize<'_> {
    /// Prepares the levels on `device`.
    ///
    /// # Errors
    /// A level has a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let shape = self.shape()?;
        let on = OnDevice::new(
            device,
            |_| Ok(cpu::Prepared::new(self, shape)),
            |cuda| cuda::Prepared::new(self, shape, (cuda, budget)).map(Box::new),
        )?;
        let state_len = match on {
            OnDevice::Cpu(_) => shape.n_past * shape.n_channels,
            OnDevice::Cuda(_) => MemoryArgument::state_len([shape.n_past, shape.n_channels]),
        };
        Ok(Plan { shape, state_len, on })
    }

    fn shape(&self) -> Result<Shape> {
        let Quantize { n_channels, dim, frame_latents, levels, lag } = *self;
        if n_channels == 0 || dim == 0 || frame_latents == 0 {
            return Err(Error::invalid(format!(
                "quantize: {n_channels} channels, {dim} dimensions and {frame_latents} latents, need at least 1 of each"
            )));
        }
        for (index, level) in levels.iter().enumerate() {
            let check = |name: &str, found, expected| {
                check_len(&format_args!("quantize: {name} of level {index}"), found, expected)
            };
            if level.codebook.len() > MAX_FLOATS {
                return Err(Error::unsupported(format!(
                    "quantize: level {index} has a codebook of {} floats, the limit is {MAX_FLOATS}",
                    level.codebook.len()
                )));
            }
            check("the strides", level.places.len() * level.stride, frame_latents)?;
            check("in_weight", level.in_weight.len(), dim * n_channels)?;
            check("in_bias", level.in_bias.len(), dim)?;
            check("out_weight", level.out_weight.len(), n_channels * dim)?;
            check("out_bias", level.out_bias.len(), n_channels)?;
            check("the codebook", level.codebook.len(), (level.codebook.len() / dim).max(1) * dim)?;
        }
        let mut places: Vec<usize> = levels.iter().flat_map(|level| level.places).copied().collect();
        places.sort_unstable();
        if !places.iter().copied().eq(0..places.len()) {
            return Err(Error::invalid(format!(
                "quantize: the places {places:?} of all levels are not 0 to {} once each",
                places.len() - 1
            )));
        }
        let timeline = Timeline { rate: 1, lag: lag.next_multiple_of(frame_latents) };
        let n_past = timeline.lag - lag;
        Ok(Shape { n_channels, dim, frame_latents, frame_codes: places.len(), n_past, timeline })
    }
}

/// Returns the codebook with rows of length 1.
fn directions(codebook: &[f32], dim: usize) -> Vec<f32> {
    let mut rows = codebook.to_vec();
    rows.chunks_exact_mut(dim).for_each(normalise);
    rows
}

/// Computes v / max(|v|, 1e-12).
#[inline(always)]
fn normalise(vector: &mut [f32]) {
    let norm = vector.iter().fold(0f32, |sum, v| v.mul_add(*v, sum)).sqrt();
    let norm = if norm > 1e-12 { norm } else { 1e-12 };
    vector.iter_mut().for_each(|v| *v /= norm);
}

impl Plan {
    /// Returns the number of floats of state per slot.
    pub fn state_len(&self) -> usize {
        self.state_len
    }

    /// Runs one step of whole frames.
    ///
    /// # Errors
    /// T is not a multiple of L, a view's length or place does not match the step, or the device
    /// fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, arena: Arena<'_>, pass: Pass<'_>) -> Result<()> {
        let Shape { n_channels, frame_latents, frame_codes, .. } = self.shape;
        if !step.n_latents.is_multiple_of(frame_latents) {
            let message = format!("quantize: {} latents are not whole frames of {frame_latents}", step.n_latents);
            return Err(Error::invalid(message));
        }
        let n_frames = step.n_columns(1) / frame_latents;
        step.check("quantize: x", pass.x.len(), 1, n_channels)?;
        check_len("quantize: codes", pass.codes.len(), n_frames * frame_codes)?;
        if let Some(margins) = &pass.margins {
            check_len("quantize: margins", margins.len(), n_frames * frame_codes)?;
        }
        arena.check("quantize", step.rows, self.state_len)?;
        let _span = kernel_span!(queue, "quantize", [n_frames, n_channels], 4 * (pass.x.len() + pass.codes.len()));
        match self.on.with(queue, "quantize")? {
            Pair::Cpu(prepared, queue) => prepared.run(queue, step, arena, pass),
            Pair::Cuda(prepared, queue) => prepared.run(queue, step, arena, pass),
        }
    }
}
