//! `elementwise`: y\[i\] = f(y\[i\], x\[i\]) or f(y\[i\], s), in place, for n floats.
//!
//! Every operation is one IEEE 754 rounding or a selection, so every device gives the same bits.
//! `Maximum` and `Minimum` are those of numpy: a NaN in y or x gives a NaN, and of two zeros y stays.

mod cpu;
pub(crate) mod cuda;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

use crate::device::cuda::{Cuda, Function};
use crate::memory::view::check_len;
use crate::queue::{OnDevice, Pair, kernel_span};
use crate::{Device, Queue, Result, View, ViewMut};

/// The operation on each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// y + x
    Add,
    /// y - x
    Subtract,
    /// y · x
    Multiply,
    /// y / x
    Divide,
    /// The greater of y and x; NaN if either is.
    Maximum,
    /// The lesser of y and x; NaN if either is.
    Minimum,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide, Self::Maximum, Self::Minimum];
}

/// The second operand.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    /// One value per element.
    Each(View<'a, f32>),
    /// The same value for all elements.
    All(f32),
}

/// A prepared operation on one device, for any length.
#[derive(Debug)]
pub struct Plan {
    operation: Operation,
    on: OnDevice<(), Functions>,
}

/// The kernels of a GPU.
#[derive(Debug)]
struct Functions {
    each: Function,
    all: Function,
}

/// Plans an operation.
///
/// # Errors
/// The device cannot compile the kernel.
pub fn plan(device: &Device, operation: Operation) -> Result<Plan> {
    let functions = |cuda: &Cuda| {
        let function = |name| cuda.function(cuda::SOURCE, name);
        Ok(Functions { each: function("elementwise_each_f32")?, all: function("elementwise_all_f32")? })
    };
    let on = OnDevice::new(device, |_| Ok(()), functions)?;
    Ok(Plan { operation, on })
}

impl Plan {
    /// Updates `y` (n) with `x` (n, or one number).
    ///
    /// # Errors
    /// The views differ in length or place, or the device fails.
    pub fn run(&self, queue: &Queue, y: ViewMut<'_, f32>, x: Operand<'_>) -> Result<()> {
        if let Operand::Each(x) = x {
            check_len("elementwise", x.len(), y.len())?;
        }
        let streams = if matches!(x, Operand::Each(_)) { 12 } else { 8 };
        let _span = kernel_span!(queue, "elementwise", [y.len()], streams * y.len());
        match (self.on.with(queue, "elementwise")?, x) {
            (Pair::Cpu((), queue), Operand::Each(x)) => cpu::each(queue, self.operation, y.host()?, x.host()?),
            (Pair::Cpu((), queue), Operand::All(x)) => cpu::all(queue, self.operation, y.host()?, x),
            (Pair::Cuda(functions, queue), Operand::Each(x)) => {
                cuda::each(queue, (&functions.each, self.operation), y.cuda()?, x.cuda()?)?;
            }
            (Pair::Cuda(functions, queue), Operand::All(x)) => {
                cuda::all(queue, (&functions.all, self.operation), y.cuda()?, x)?;
            }
        }
        Ok(())
    }
}
