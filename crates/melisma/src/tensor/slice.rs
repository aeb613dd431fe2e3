//! Elementwise operations on the caller's memory.

use melisma_kernels::elementwise::{self, Operand, Operation};
use melisma_kernels::matmul::Scalar;
use melisma_kernels::{DType, Tensor, View};

use super::{Factor, TensorOptimizer, element};
use crate::runtime::device::Device;
use crate::runtime::memory::Space;
use crate::{Error, Result};

/// The second operand of an operation on slices.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a, T> {
    /// One value per element.
    Each(&'a [T]),
    /// One number for all elements.
    All(f32),
}

impl TensorOptimizer {
    /// Applies `x` to `y` in place. FP32 on the CPU needs no memory; otherwise one chunk at a time
    /// is copied.
    ///
    /// # Errors
    /// The lengths differ, or the memory limit is exceeded.
    pub fn combine_slices<T: Scalar>(&self, operation: Operation, y: &mut [T], x: Values<'_, T>) -> Result<()> {
        if let Values::Each(x) = x
            && x.len() != y.len()
        {
            return Err(Error::invalid(format!("the slices differ in length: {} and {} elements", y.len(), x.len())));
        }
        if matches!(self.queue().device(), Device::Cpu(_)) && T::DTYPE == DType::F32 {
            let y: &mut [f32] = bytemuck::cast_slice_mut(y);
            let x = match x {
                Values::Each(x) => Operand::Each(View::Host(bytemuck::cast_slice(x))),
                Values::All(x) => Operand::All(x),
            };
            return elementwise::plan(&self.queue().device(), operation)?.run(self.queue(), y.into(), x);
        }
        let budget = self.memory().budget();
        let (n_rows, row_len) = element::rows(&[y.len()]);
        let n_operands = if matches!(x, Values::Each(_)) { 2 } else { 1 };
        // The copies of a chunk, and its floats.
        let row_bytes = n_operands * row_len * (size_of::<T>() + size_of::<f32>());
        let rows = self.rows(Space::Host, (n_rows, row_bytes))?;
        let copied = |values: &[T]| Tensor::from_slice(budget, values, &[values.len()]);
        for (index, y) in y.chunks_mut(rows * row_len).enumerate() {
            let mut part = copied(y)?;
            match x {
                Values::Each(x) => {
                    let x = copied(&x[index * rows * row_len..][..y.len()])?;
                    self.combine_in_place(operation, &mut part, Factor::Tensor(&x))?;
                }
                Values::All(x) => self.combine_in_place(operation, &mut part, x)?,
            }
            y.copy_from_slice(part.view::<T>()?.host()?);
        }
        Ok(())
    }
}
