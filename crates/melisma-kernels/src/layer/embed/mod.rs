//! `embed`: codes of all levels to latents, the decoding half of SNAC's quantiser. codes `[B, F, S]`, y `[B, T, C]`.
//!
//! A frame has S codes in a row and covers L latents, T = F · L. Level l has one code for every
//! `stride` latents; `places[j]` is the position of its j-th code in a frame. With e =
//! codebook_l\[code\] (D floats):
//!
//! y[t, c] = Σ_l (b_l\[c\] + Σ_d W_l[c, d] · e\[d\]), levels in order, each level summed
//! separately, d ascending, fused on the CPU.
//!
//! Latents from the row's `end` on are 0. A code outside its codebook is clamped to the nearest
//! valid code; callers reject such codes first. No state. Results on different devices agree within
//! 1e-5 of the largest term.
//!
//! For strides (4, 2, 1) a frame is L0 L1 L2 L2 L1 L2 L2: places (0), (1, 4), (2, 3, 5, 6).
//!
//! # Why are codes projected again for every frame?
//!
//! A code vector has 8 floats. Projecting it costs less than fetching the 3 KiB row of a table of
//! projected codes; the tables would be 38 MB and take longer to build than all other packing.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::step::Step;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, View, ViewMut};

/// One level with its codebook.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    /// Latents per code.
    pub stride: usize,
    /// The positions of the level's codes in a frame, L / `stride` of them.
    pub places: &'a [usize],
    /// `[N, D]`
    pub codebook: &'a [f32],
    /// `[C, D]`
    pub weight: &'a [f32],
    /// `[C]`
    pub bias: &'a [f32],
}

/// All levels.
#[derive(Debug, Clone, Copy)]
pub struct Embed<'a> {
    /// C.
    pub n_channels: usize,
    /// D.
    pub dim: usize,
    /// L.
    pub frame_latents: usize,
    /// Coarse to fine.
    pub levels: &'a [Level<'a>],
}

/// Levels prepared for one device.
#[derive(Debug)]
pub struct Plan {
    n_channels: usize,
    frame_latents: usize,
    frame_codes: usize,
    on: OnDevice<cpu::Prepared, Box<cuda::Prepared>>,
}

impl Embed<'_> {
    /// Returns S.
    pub fn frame_codes(&self) -> usize {
        self.levels.iter().map(|level| level.places.len()).sum()
    }

    /// Prepares the levels on `device`.
    ///
    /// # Errors
    /// A level has a wrong shape, or the device does not support it.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let frame_codes = self.frame_codes();
        for (index, level) in self.levels.iter().enumerate() {
            check_len("embed: weight", level.weight.len(), self.n_channels * self.dim)?;
            check_len("embed: bias", level.bias.len(), self.n_channels)?;
            check_len("embed: places", level.places.len() * level.stride, self.frame_latents)?;
            let whole = self.dim > 0 && !level.codebook.is_empty() && level.codebook.len().is_multiple_of(self.dim);
            if !whole || level.places.iter().any(|&place| place >= frame_codes) {
                return Err(Error::invalid(format!(
                    "embed: level {index} has {} floats in rows of {}, and codes at {:?} of {frame_codes}",
                    level.codebook.len(),
                    self.dim,
                    level.places
                )));
            }
        }
        let on = OnDevice::new(
            device,
            |_| Ok(cpu::Prepared::new(self)),
            |cuda| cuda::Prepared::new(self, cuda, budget).map(Box::new),
        )?;
        Ok(Plan { n_channels: self.n_channels, frame_latents: self.frame_latents, frame_codes, on })
    }
}

impl Plan {
    /// Runs one step of whole frames: codes `[B, T / L, S]`, y `[B, T, C]`.
    ///
    /// # Errors
    /// T is not a multiple of L, a view's length or place does not match the step, or the device
    /// fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, codes: View<'_, i32>, y: ViewMut<'_, f32>) -> Result<()> {
        if !step.n_latents.is_multiple_of(self.frame_latents) {
            let message = format!("embed: {} latents are not whole frames of {}", step.n_latents, self.frame_latents);
            return Err(Error::invalid(message));
        }
        let n_frames = step.rows.len() * (step.n_latents / self.frame_latents);
        check_len("embed: codes", codes.len(), n_frames * self.frame_codes)?;
        step.check("embed: y", y.len(), 1, self.n_channels)?;
        let _span = kernel_span!(queue, "embed", [n_frames, self.n_channels], 4 * (codes.len() + y.len()));
        match self.on.with(queue, "embed")? {
            Pair::Cpu(prepared, queue) => prepared.run(queue, step, codes.host()?, y.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, step, codes.cuda()?, y.cuda()?)?,
        }
        Ok(())
    }
}
