//! `embed`: rows of a matrix by number. w `[V, C]`, y `[R, C]`.
//!
//! y\[r\] = w\[token\[r\]\], widened to f32 exactly. On a GPU w is bf16 and C a multiple of 8.
//!
//! w = ((1, 2), (3, 4)), tokens (1, 0): y = ((3, 4), (1, 2)).

mod cpu;
mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use super::numbers::Numbers;
use super::weight::Weight;
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Budget, Device, Error, Queue, Result, ViewMut};

/// A table of rows prepared for one device.
#[derive(Debug)]
pub struct Plan {
    shape: [usize; 2],
    bytes_per_token: usize,
    on: OnDevice<Weight, cuda::Prepared>,
}

/// Prepares the table `weight` (V, C) on `device`.
///
/// # Errors
/// Rows without channels, weights that the device does not take, or the budget or the device refuses.
pub fn plan(device: &Device, weight: &Weight, budget: &Budget) -> Result<Plan> {
    if weight.shape()[1] == 0 {
        return Err(Error::invalid("embed: no channels"));
    }
    let on = OnDevice::new(
        device,
        |_| weight.check_host("embed").map(|()| weight.clone()),
        |cuda| cuda::Prepared::new(weight, cuda, budget),
    )?;
    let bytes_per_token = weight.shape()[1] * (4 + weight.dtype().size());
    Ok(Plan { shape: weight.shape(), bytes_per_token, on })
}

impl Plan {
    /// Writes the rows of `tokens` (R) to `y` (R, C).
    ///
    /// # Errors
    /// The row does not exist, the view has another length, or the device fails.
    pub fn run(&self, queue: &Queue, tokens: &Numbers, y: ViewMut<'_, f32>) -> Result<()> {
        let [n_tokens, n_channels] = self.shape;
        if let Some(token) = tokens.as_slice().iter().find(|&&token| token as usize >= n_tokens) {
            return Err(Error::invalid(format!("token {token} of a vocabulary of {n_tokens}")));
        }
        check_len("embed: y", y.len(), tokens.len() * n_channels)?;
        let bytes = tokens.len() * self.bytes_per_token;
        let _span = kernel_span!(queue, "embed", [tokens.len(), n_channels], bytes);
        match self.on.with(queue, "embed")? {
            Pair::Cpu(weight, queue) => cpu::run(queue, weight, tokens.as_slice(), y.host()?),
            Pair::Cuda(prepared, queue) => prepared.run(queue, tokens, y.cuda()?)?,
        }
        Ok(())
    }
}
