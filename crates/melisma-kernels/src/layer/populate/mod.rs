//! `populate`: splits frames of seven codes into the three levels of a 24 kHz SNAC model. frames
//! `[n, 7]`, levels `[n]`, `[2n]`, `[4n]`, valid `[3]`, all i32.
//!
//! Frame i gives level 0 its code 0, level 1 its codes 1 and 4, level 2 its codes 2, 3, 5 and 6.
//! `valid[l]` is 1 if every code of level l lies in 0 .. `codebook_size`, else 0; with no frames,
//! all levels are valid. Exact on every device.
//!
//! Frame (10, 20, 30, 31, 21, 32, 33) becomes (10), (20, 21), (30, 31, 32, 33).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::device::cuda::Function;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Device, Queue, Result, View, ViewMut};

/// Codes per frame.
pub const FRAME_CODES: usize = 7;
/// Codes per frame on each level.
pub const LEVEL_CODES: [usize; 3] = [1, 2, 4];

pub use cpu::populate;

/// The outputs of a run, for n frames.
#[derive(Debug)]
pub struct Output<'a> {
    /// `[n]`, `[2n]`, `[4n]`
    pub levels: [ViewMut<'a, i32>; 3],
    /// `[3]`: 1 if all codes of the level are in the codebook.
    pub valid: ViewMut<'a, i32>,
}

/// A population prepared for one device.
#[derive(Debug)]
pub struct Plan {
    codebook_size: i32,
    on: OnDevice<(), Function>,
}

/// Prepares populations against codebooks of `codebook_size`.
///
/// # Errors
/// The device does not support it.
pub fn plan(device: &Device, codebook_size: i32) -> Result<Plan> {
    let on = OnDevice::new(device, |_| Ok(()), |cuda| cuda.function(cuda::SOURCE, cuda::SYMBOL))?;
    Ok(Plan { codebook_size, on })
}

impl Plan {
    /// Spreads `frames`, `[n, 7]`, over the levels.
    ///
    /// # Errors
    /// The views do not hold whole frames, are in the wrong place, or the device fails.
    pub fn run(&self, queue: &Queue, frames: View<'_, i32>, output: Output<'_>) -> Result<()> {
        let n_frames = frames.len() / FRAME_CODES;
        check_len("populate: frames", frames.len(), n_frames * FRAME_CODES)?;
        for (level, per_frame) in output.levels.iter().zip(LEVEL_CODES) {
            check_len("populate: level", level.len(), n_frames * per_frame)?;
        }
        check_len("populate: valid", output.valid.len(), 3)?;
        let _span = kernel_span!(queue, "populate", [n_frames, FRAME_CODES], 8 * frames.len());
        match self.on.with(queue, "populate")? {
            Pair::Cpu((), _) => {
                let [coarse, middle, fine] = output.levels;
                let levels = [coarse.host()?, middle.host()?, fine.host()?];
                let valid = populate(frames.host()?, self.codebook_size, levels);
                output.valid.host()?.copy_from_slice(&valid.map(i32::from));
                Ok(())
            }
            Pair::Cuda(function, queue) => cuda::run(queue, function, self.codebook_size, frames.cuda()?, output),
        }
    }
}
