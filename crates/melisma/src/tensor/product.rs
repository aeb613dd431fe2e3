//! Products in chunks of rows. Operands of another type are converted one chunk at a time, so the
//! working set is B and one chunk of A.

use half::{bf16, f16};
use melisma_kernels::matmul::{Chunk, Matmul, Plan, Scalar};
use melisma_kernels::{DType, Tensor, View};

use super::{TensorOptimizer, lower};
use crate::runtime::device::{Device, Queue};
use crate::runtime::memory::Space;
use crate::{Error, Result};

pub fn matmul(optimizer: &TensorOptimizer, dtype: DType, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (&[m, k], &[k_of_b, n]) = (a.shape(), b.shape()) else {
        return Err(Error::invalid(format!("matmul: {:?} and {:?} are not two matrices", a.shape(), b.shape())));
    };
    if k != k_of_b {
        return Err(Error::invalid(format!("matmul: A has {k} columns, B has {k_of_b} rows")));
    }
    let matmul = Matmul { tf32: optimizer.policy().precision.tf32, ..Matmul::new(m, k, n) };
    match dtype {
        DType::F32 => Product::<f32>::new(optimizer, matmul)?.run(a, b),
        DType::F16 => Product::<f16>::new(optimizer, matmul)?.run(a, b),
        DType::BF16 => Product::<bf16>::new(optimizer, matmul)?.run(a, b),
        other => Err(lower::not_floats(other)),
    }
}

struct Product<'a, T> {
    optimizer: &'a TensorOptimizer,
    matmul: Matmul,
    plan: Plan<T>,
}

impl<'a, T: Scalar> Product<'a, T> {
    fn new(optimizer: &'a TensorOptimizer, matmul: Matmul) -> Result<Self> {
        Ok(Self { optimizer, matmul, plan: matmul.plan(&optimizer.queue().device())? })
    }

    fn run(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        if lower::is_on_host(a) && lower::is_on_host(b) {
            return self.run_on_host(a, b);
        }
        let budget = self.optimizer.memory().budget();
        let mut c = Tensor::new(&self.optimizer.queue().device(), budget, T::DTYPE, &[self.matmul.m, self.matmul.n])?;
        let (a, b) = (self.on_device(a)?, self.on_device(b)?);
        let queue = self.optimizer.queue();
        self.plan.run(queue, a.view()?, b.view()?, c.view_mut()?)?;
        queue.synchronize()?;
        Ok(c)
    }

    fn on_device(&self, operand: &Tensor) -> Result<Tensor> {
        let values = match operand.view::<T>() {
            Ok(_) => operand.to(self.optimizer.queue(), self.optimizer.memory().budget())?,
            Err(error) => {
                return Err(error.with_hint("call optimize_tensor with the product's type, or stay in host memory"));
            }
        };
        Ok(values)
    }

    fn run_on_host(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let Matmul { m, k, n, .. } = self.matmul;
        let budget = self.optimizer.memory().budget();
        let mut c = Tensor::new(&Device::cpu()?, budget, T::DTYPE, &[m, n])?;
        let lowered = match b.dtype() == T::DTYPE {
            true => None,
            false => {
                let mut lowered = Tensor::new(&Device::cpu()?, budget, T::DTYPE, &[k, n])?;
                lower::read(b, 0, lowered.view_mut::<T>()?.host()?)?;
                Some(lowered)
            }
        };
        let b = lowered.as_ref().unwrap_or(b).view::<T>()?.host()?;
        let row_bytes = if a.dtype() == T::DTYPE { 0 } else { k * size_of::<T>() };
        let rows = self.optimizer.rows(Space::Host, (m, row_bytes))?.min(self.rows_of_device()?);
        let out = c.view_mut::<T>()?.host()?;
        match a.view::<T>() {
            Ok(View::Host(a)) => self.run_rows(rows, [a, b], out)?,
            _ => self.run_lowered(rows, a, b, out)?,
        }
        Ok(c)
    }

    /// Returns the number of rows of A and C that fit into GPU memory.
    fn rows_of_device(&self) -> Result<usize> {
        let Matmul { m, k, n, .. } = self.matmul;
        match self.optimizer.queue() {
            Queue::Cpu(_) => Ok(usize::MAX),
            Queue::Cuda(_) => self.optimizer.rows(Space::Device, (m, (k + n) * size_of::<T>())),
        }
    }

    /// Multiplies when A already has the product's type. A GPU takes as many rows of a chunk as fit
    /// into its memory.
    fn run_rows(&self, rows: usize, operands: [&[T]; 2], out: &mut [T]) -> Result<()> {
        let queue = self.optimizer.queue();
        let budget = self.optimizer.memory().budget();
        self.plan.run_chunked(queue, Chunk { budget, most_rows: rows }, operands, out)?;
        Ok(())
    }

    fn run_lowered(&self, rows: usize, a: &Tensor, b: &[T], out: &mut [T]) -> Result<()> {
        let Matmul { m, k, n, .. } = self.matmul;
        let budget = self.optimizer.memory().budget();
        let mut part = Tensor::new(&Device::cpu()?, budget, T::DTYPE, &[rows, k])?;
        for first in (0..m).step_by(rows) {
            let n_rows = rows.min(m - first);
            let part = &mut part.view_mut::<T>()?.host()?[..n_rows * k];
            lower::read(a, first * k, part)?;
            let out = &mut out[first * n..(first + n_rows) * n];
            match self.optimizer.queue() {
                queue @ Queue::Cpu(_) if n_rows == m => {
                    self.plan.run(queue, (&*part).into(), b.into(), out.into())?;
                }
                queue => {
                    let chunk = Matmul { m: n_rows, ..self.matmul }.plan::<T>(&queue.device())?;
                    chunk.run_chunked(queue, Chunk::fitting(budget), [&*part, b], out)?;
                }
            }
        }
        Ok(())
    }
}
