//! `noise`: normal deviates that depend only on the position, for all noise blocks of a decoder at
//! once.
//!
//! Deviate n of block b under seed s is lane n mod 4 of Philox4x32-10 with the counter (n div 4
//! low, n div 4 high, b, 0) and the key (s low, s high), made normal by Box-Muller: words 0 and 1
//! make lanes 0 and 1, words 2 and 3 lanes 2 and 3, radius √(-2 ln((w₀ >> 8) + 1)/2²⁴), angle 2π
//! (w₁ >> 8)/2²⁴, cosine first. Any piece of a stream can therefore be computed without the pieces
//! before it. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
//!
//! The output is `[B, T · rate]` for each block, one block after the other; it is 0 where the
//! block's timeline has no output, and for rows without noise. Integers are exact on every device.
//! Deviates agree within 4e-6; on the CPU they are computed in f64 and rounded once.

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::layer::step::{Step, Timeline};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Queue, Result, ViewMut};

pub use cpu::{fill_normal, philox4x32};

/// The noise of some blocks; block b is keyed by its index.
#[derive(Debug, Clone, Copy)]
pub struct Noise<'a> {
    /// The timeline of each block's deviates.
    pub blocks: &'a [Timeline],
}

/// Noise prepared for one device.
#[derive(Debug)]
pub struct Plan {
    blocks: Vec<Timeline>,
    on: OnDevice<(), Box<cuda::Prepared>>,
}

impl Noise<'_> {
    /// Prepares the noise on `device`.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn plan(&self, device: &Device, budget: &Budget) -> Result<Plan> {
        let on =
            OnDevice::new(device, |_| Ok(()), |cuda| cuda::Prepared::new(self.blocks, cuda, budget).map(Box::new))?;
        Ok(Plan { blocks: self.blocks.to_vec(), on })
    }
}

impl Plan {
    /// Returns the timeline of each block's deviates.
    pub fn blocks(&self) -> &[Timeline] {
        &self.blocks
    }

    /// Returns the number of deviates of one row per latent, over all blocks.
    pub fn per_latent(&self) -> usize {
        self.blocks.iter().map(|block| block.rate).sum()
    }

    /// Runs one step: `deviates` is `[B, T · rate]` for each block.
    ///
    /// # Errors
    /// The view's length or place does not match the step, or the device fails.
    pub fn run(&self, queue: &Queue, step: Step<'_>, deviates: ViewMut<'_, f32>) -> Result<()> {
        check_len("noise", deviates.len(), step.n_columns(self.per_latent()))?;
        let _span = kernel_span!(queue, "noise", [deviates.len()], 4 * deviates.len());
        match self.on.with(queue, "noise")? {
            Pair::Cpu((), _) => cpu::run(&self.blocks, step, deviates.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, step, deviates.cuda()?)?,
        }
        Ok(())
    }
}
