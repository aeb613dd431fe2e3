//! Elementwise operations, in place or into new memory, one chunk at a time.

use melisma_kernels::elementwise::{self, Operand, Operation, Plan};
use melisma_kernels::{DType, Tensor};

use super::{TensorOptimizer, lower};
use crate::config::policy::Placement;
use crate::runtime::device::Device;
use crate::runtime::memory::Space;
use crate::{Error, Result};

/// A tensor with one axis is split into rows of this many elements.
const FLAT_ROW: usize = 1024;

/// The second operand of an operation.
#[derive(Debug, Clone, Copy)]
pub enum Factor<'a> {
    /// A tensor of the same shape.
    Tensor(&'a Tensor),
    /// One number for all elements.
    Number(f32),
}

impl<'a> From<&'a Tensor> for Factor<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<f32> for Factor<'_> {
    fn from(number: f32) -> Self {
        Self::Number(number)
    }
}

impl TensorOptimizer {
    /// Applies `x` to `y`: in the memory of `y` if the policy works in place, otherwise in new
    /// memory.
    ///
    /// # Errors
    /// The shapes differ, the elements are not floats, or the memory limit is exceeded.
    pub fn combine<'a>(&self, operation: Operation, mut y: Tensor, x: impl Into<Factor<'a>>) -> Result<Tensor> {
        if self.policy().placement == Placement::Separate {
            y = self.copied(&y)?;
        }
        self.combine_in_place(operation, &mut y, x)?;
        Ok(y)
    }

    /// Applies `x` to `y` in place.
    ///
    /// # Errors
    /// As [`TensorOptimizer::combine`].
    pub fn combine_in_place<'a>(&self, operation: Operation, y: &mut Tensor, x: impl Into<Factor<'a>>) -> Result<()> {
        let x = x.into();
        if let Factor::Tensor(x) = x
            && x.shape() != y.shape()
        {
            return Err(Error::invalid(format!("shapes {:?} and {:?} differ", y.shape(), x.shape())));
        }
        let work = Work { optimizer: self, plan: elementwise::plan(&self.queue().device(), operation)? };
        if work.is_direct(y, x) { work.run_direct(y, x) } else { work.run_in_chunks(y, x) }?;
        self.queue().synchronize()
    }

    fn copied(&self, tensor: &Tensor) -> Result<Tensor> {
        let budget = self.memory().budget();
        let queue = if lower::is_on_host(tensor) { Device::cpu()?.queue(budget)? } else { self.queue().clone() };
        match tensor.dtype() {
            DType::F32 => tensor.to(&queue, budget),
            DType::F16 => tensor.to(&queue, budget),
            DType::BF16 => tensor.to(&queue, budget),
            other => Err(lower::not_floats(other)),
        }
    }
}

struct Work<'a> {
    optimizer: &'a TensorOptimizer,
    plan: Plan,
}

impl Work<'_> {
    /// Returns whether the kernel can use the memory directly.
    fn is_direct(&self, y: &Tensor, x: Factor<'_>) -> bool {
        let on_host = matches!(self.optimizer.queue().device(), Device::Cpu(_));
        let fits = |tensor: &Tensor| tensor.dtype() == DType::F32 && lower::is_on_host(tensor) == on_host;
        fits(y) && matches!(x, Factor::Number(_)) || matches!(x, Factor::Tensor(x) if fits(y) && fits(x))
    }

    fn run_direct(&self, y: &mut Tensor, x: Factor<'_>) -> Result<()> {
        let x = match x {
            Factor::Tensor(x) => Operand::Each(x.view()?),
            Factor::Number(x) => Operand::All(x),
        };
        self.plan.run(self.optimizer.queue(), y.view_mut()?, x)
    }

    /// Passes the floats of each chunk through buffers on the queue's device.
    fn run_in_chunks(&self, y: &mut Tensor, x: Factor<'_>) -> Result<()> {
        let (queue, budget) = (self.optimizer.queue(), self.optimizer.memory().budget());
        if !lower::is_on_host(y) || matches!(x, Factor::Tensor(x) if !lower::is_on_host(x)) {
            return Err(Error::invalid("one tensor is in host memory and the other is not, or it is not f32")
                .with_hint("optimize_tensor brings both to the device"));
        }
        let (n_rows, row_len) = rows(y.shape());
        let n_buffers = if matches!(x, Factor::Tensor(_)) { 2 } else { 1 };
        let space = if matches!(queue.device(), Device::Cpu(_)) { Space::Host } else { Space::Device };
        // Besides the device buffers, a chunk of floats passes through host memory.
        let row_bytes = 4 * row_len * n_buffers * (1 + usize::from(space == Space::Device));
        let rows = self.optimizer.rows(space, (n_rows, row_bytes))?;
        let len = (rows * row_len).min(y.len());
        let device = queue.device();
        let buffer = |device: &Device| Tensor::new(device, budget, DType::F32, &[len]);
        let mut y_floats = buffer(&device)?;
        let mut x_floats = if n_buffers == 2 { Some(buffer(&device)?) } else { None };
        let mut staging = if space == Space::Device { Some(buffer(&Device::cpu()?)?) } else { None };
        for first in (0..y.len()).step_by(len.max(1)) {
            let len = len.min(y.len() - first);
            self.bring(y, first..first + len, &mut y_floats, &mut staging)?;
            let x = match (x, &mut x_floats) {
                (Factor::Tensor(x), Some(floats)) => {
                    self.bring(x, first..first + len, floats, &mut staging)?;
                    Operand::Each(floats.view()?.first(len)?)
                }
                (Factor::Number(x), _) => Operand::All(x),
                (Factor::Tensor(_), None) => return Err(Error::invalid("no buffer for the second tensor")),
            };
            self.plan.run(queue, y_floats.view_mut()?.first(len)?, x)?;
            let floats = match &mut staging {
                Some(staging) => {
                    queue.copy(y_floats.view()?.first(len)?, staging.view_mut::<f32>()?.first(len)?)?;
                    staging.view::<f32>()?.first(len)?.host()?
                }
                None => y_floats.view::<f32>()?.first(len)?.host()?,
            };
            lower::write(floats, y, first)?;
        }
        Ok(())
    }

    fn bring(
        &self,
        from: &Tensor,
        range: std::ops::Range<usize>,
        to: &mut Tensor,
        staging: &mut Option<Tensor>,
    ) -> Result<()> {
        let len = range.len();
        match staging {
            None => lower::read(from, range.start, to.view_mut::<f32>()?.first(len)?.host()?),
            Some(staging) => {
                lower::read(from, range.start, staging.view_mut::<f32>()?.first(len)?.host()?)?;
                self.optimizer.queue().copy(staging.view::<f32>()?.first(len)?, to.view_mut()?.first(len)?)
            }
        }
    }
}

/// Returns the number of rows and their length: the last axis, or a piece of the only one.
pub fn rows(shape: &[usize]) -> (usize, usize) {
    match shape {
        [] => (1, 1),
        [len] => (len.div_ceil(FLAT_ROW), FLAT_ROW.min(*len).max(1)),
        [rows @ .., last] => (rows.iter().product(), (*last).max(1)),
    }
}
