//! Tensor tools that follow the settings: they lower precision if the policy asks for it, work in
//! place and in chunks when memory is short, and load tensors one at a time.
//!
//! A precision scope is a value: inside it, products store their operands in the format named by
//! `target_precision` and sum in FP32. Chunking never changes a bit of a result.
//!
//! ```
//! use melisma::{DType, Tensor};
//! use melisma::tensor::{Operation, TensorOptimizer};
//! use melisma::config::Config;
//!
//! let optimizer = TensorOptimizer::new(&Config::load_with_profile("training")?)?;
//! let budget = optimizer.memory().budget();
//! let x = Tensor::from_slice(budget, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let x = optimizer.optimize_tensor(x, None)?;
//! let y = optimizer.memory().track("product", || optimizer.mixed_precision(|scope| scope.matmul(&x, &x)))?;
//! let y = optimizer.combine(Operation::Maximum, y, 8.0)?;
//! assert_eq!((y.dtype(), y.to_vec::<f32>(optimizer.queue())?), (DType::F32, vec![8.0, 10.0, 15.0, 22.0]));
//! println!("{}", optimizer.memory().summary());
//! # Ok::<(), melisma::Error>(())
//! ```

mod chunk;
mod element;
mod load;
mod lower;
mod product;
mod slice;
#[cfg(test)]
mod tests;

pub use element::Factor;
pub use load::Weights;
pub use melisma_kernels::elementwise::Operation;
pub use melisma_kernels::matmul::Scalar;
use melisma_kernels::{DType, Tensor};
pub use slice::Values;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::config::precision::{Format, Lowering};
use crate::config::{Config, Policy};
use crate::runtime::MemoryTracker;
use crate::runtime::device::{self, Device, Queue};
use crate::runtime::memory::{self, Available};
use crate::{Context, Result};

/// The tensor tools, with their policy, queue and memory.
#[derive(Debug, Clone)]
pub struct TensorOptimizer {
    policy: Policy,
    queue: Queue,
    memory: MemoryTracker,
    available: Option<Available>,
}

impl TensorOptimizer {
    /// Creates tools from `config`: its device, threads, memory limit and section
    /// `tensor_optimizations`.
    ///
    /// # Errors
    /// The requested device is missing.
    pub fn new(config: &Config) -> Result<Self> {
        let device = device::select(config.device.value, config.threads.value)?;
        let memory = MemoryTracker::new(memory::budget(config.memory_limit.value, &device));
        let queue = device.queue(memory.budget())?;
        Ok(Self::on(Policy::new(config), queue, memory))
    }

    /// Creates tools in `context`.
    pub fn new_in(context: &Context, policy: Policy) -> Self {
        Self::on(policy, context.queue().clone(), context.memory().clone())
    }

    /// Creates tools on an existing queue; `memory` must be the tracker that the queue was created
    /// with.
    #[doc(hidden)]
    pub fn on(policy: Policy, queue: Queue, memory: MemoryTracker) -> Self {
        Self { policy, queue, memory, available: None }
    }

    /// Assumes that this much memory is free, whatever the machine reports.
    #[must_use]
    #[doc(hidden)]
    pub fn with_available(mut self, available: Available) -> Self {
        self.available = Some(available);
        self
    }

    /// Returns the same tools, whose work on the CPU ends early once `stop` is set. What it returns is then
    /// incomplete, so whoever sets `stop` discards it.
    #[must_use]
    pub fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Self {
        Self { queue: self.queue.stopped_by(stop), ..self.clone() }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the queue that runs the work.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the memory in use and its limit.
    pub fn memory(&self) -> &MemoryTracker {
        &self.memory
    }

    /// Moves `tensor` to the device and converts it to `dtype`, or to the policy's type if none is
    /// given. Only floats are converted.
    ///
    /// # Errors
    /// [`ErrorKind::Check`](crate::ErrorKind) if `dtype` cannot represent a finite value of the tensor; under
    /// the policy, that tensor keeps its type instead. `Unsupported` for a `dtype` that is not a
    /// float type; `Memory` if the limit is exceeded.
    pub fn optimize_tensor(&self, tensor: Tensor, dtype: impl Into<Option<DType>>) -> Result<Tensor> {
        match dtype.into() {
            Some(dtype) => lower::to(self, tensor, dtype),
            None if tensor.dtype() == DType::F32 => lower::if_it_fits(self, tensor, self.target()),
            None => lower::place(self, tensor),
        }
    }

    /// Runs `work` with products in the policy's precision.
    pub fn mixed_precision<R>(&self, work: impl FnOnce(&Scope<'_>) -> R) -> R {
        work(&Scope { optimizer: self, dtype: self.target() })
    }

    /// Optimizes `inputs` and runs `work` on them in a precision scope, tracked as `name`.
    ///
    /// # Errors
    /// As [`TensorOptimizer::optimize_tensor`], and those of `work`.
    pub fn apply<R>(
        &self,
        name: &str,
        inputs: Vec<Tensor>,
        work: impl FnOnce(&Scope<'_>, Vec<Tensor>) -> Result<R>,
    ) -> Result<R> {
        self.memory.track(name, || {
            let inputs = inputs.into_iter().map(|tensor| self.optimize_tensor(tensor, None)).collect::<Result<_>>()?;
            self.mixed_precision(|scope| work(scope, inputs))
        })
    }

    /// Computes a `[M, K]` · b `[K, N]`, in the type of `a`.
    ///
    /// # Errors
    /// The shapes do not match, the elements are not floats, or the memory limit is exceeded.
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        product::matmul(self, a.dtype(), a, b)
    }

    /// Returns the policy's tensor format. INT8 is for engine weights, which have scales; a bare
    /// tensor has none.
    fn target(&self) -> DType {
        match self.policy.precision.engine {
            Lowering::To(Format::Fp16) => DType::F16,
            Lowering::To(Format::Bf16) => DType::BF16,
            Lowering::Auto if matches!(self.queue.device(), Device::Cuda(_)) => DType::F16,
            Lowering::Never | Lowering::Auto | Lowering::To(Format::Fp32 | Format::Int8) => DType::F32,
        }
    }
}

/// Products in the policy's precision; see [`TensorOptimizer::mixed_precision`].
#[derive(Debug)]
pub struct Scope<'a> {
    optimizer: &'a TensorOptimizer,
    dtype: DType,
}

impl Scope<'_> {
    /// Returns the format of operands.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the tools that created it.
    pub fn optimizer(&self) -> &TensorOptimizer {
        self.optimizer
    }

    /// Computes a `[M, K]` · b `[K, N]`, in the format of this scope.
    ///
    /// # Errors
    /// As [`TensorOptimizer::matmul`].
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        product::matmul(self.optimizer, self.dtype, a, b)
    }
}
