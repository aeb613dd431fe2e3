//! Prepared data of a plan, for the CPU or a GPU.

use super::{CpuQueue, CudaQueue, Queue};
use crate::device::Cpu;
use crate::device::cuda::Cuda;
use crate::{Device, Error, Result};

/// The prepared data of a plan: `C` for the CPU, or `G` for a GPU.
#[derive(Debug)]
pub(crate) enum OnDevice<C, G> {
    Cpu(C),
    Cuda(G),
}

/// The prepared data of a plan, and a queue of the same device.
pub(crate) enum Pair<'a, C, G> {
    Cpu(&'a C, &'a CpuQueue),
    Cuda(&'a G, &'a CudaQueue),
}

impl<C, G> OnDevice<C, G> {
    /// Prepares the data that `device` needs.
    pub(crate) fn new(
        device: &Device,
        cpu: impl FnOnce(Cpu) -> Result<C>,
        cuda: impl FnOnce(&Cuda) -> Result<G>,
    ) -> Result<Self> {
        match device {
            Device::Cpu(processor) => cpu(*processor).map(Self::Cpu),
            Device::Cuda(gpu) => cuda(gpu).map(Self::Cuda),
        }
    }

    /// Pairs it with a queue.
    ///
    /// # Errors
    /// The queue belongs to a different device than the plan.
    pub(crate) fn with<'a>(&'a self, queue: &'a Queue, kernel: &str) -> Result<Pair<'a, C, G>> {
        match (self, queue) {
            (Self::Cpu(prepared), Queue::Cpu(queue)) => Ok(Pair::Cpu(prepared, queue)),
            (Self::Cuda(prepared), Queue::Cuda(queue)) => Ok(Pair::Cuda(prepared, queue)),
            _ => Err(Error::invalid(format!("{kernel}: the queue belongs to another device than the plan"))),
        }
    }
}
