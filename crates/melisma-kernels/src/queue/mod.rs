//! Queues that work is submitted to: a CUDA stream, or the CPU's threads with their scratch memory.

mod cpu;
mod cuda;
mod disjoint;
mod graph;
mod on_device;
mod tensor;
mod upload;

pub use cpu::CpuQueue;
pub use cuda::CudaQueue;
pub(crate) use cuda::{Launch, arguments, blocks, scratch_bytes};
pub(crate) use disjoint::Disjoint;
pub use graph::Graph;
pub(crate) use on_device::{OnDevice, Pair};
pub(crate) use upload::{Upload, address};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::device::cuda::{DeviceSpan, Event, Timing};
use crate::memory::view::check_len;
use crate::{Budget, Buffer, Device, Element, Error, Pool, Result, View, ViewMut};

/// The span of one kernel run; it ends when this is dropped.
pub(crate) type KernelSpan<'a> = (tracing::span::EnteredSpan, Option<Timing<'a>>);

/// Opens the span of one kernel run, on the host's timeline and on the device's.
macro_rules! kernel_span {
    ($queue:expr, $name:literal, $shape:expr, $bytes:expr) => {
        (
            tracing::info_span!($name, shape = ?$shape, bytes = $bytes as u64).entered(),
            $queue.time($name, $bytes as u64),
        )
    };
}
pub(crate) use kernel_span;

/// Runs submitted work in order. On the CPU a call returns when its work is done; on a GPU it
/// returns at once.
#[derive(Debug, Clone)]
pub enum Queue {
    /// Threads of this process.
    Cpu(CpuQueue),
    /// A stream of a GPU.
    Cuda(CudaQueue),
}

impl Device {
    /// Returns a new queue whose buffers are counted in `budget`.
    ///
    /// # Errors
    /// The device refuses to make one.
    pub fn queue(&self, budget: &Budget) -> Result<Queue> {
        Ok(match self {
            Self::Cpu(cpu) => Queue::Cpu(CpuQueue::new(*cpu, budget)),
            Self::Cuda(cuda) => Queue::Cuda(CudaQueue::new(cuda, budget)?),
        })
    }
}

impl Queue {
    /// Returns the device it belongs to.
    pub fn device(&self) -> Device {
        match self {
            Self::Cpu(queue) => Device::Cpu(queue.cpu()),
            Self::Cuda(queue) => Device::Cuda(queue.cuda().clone()),
        }
    }

    /// Returns the budget that its memory is counted in.
    pub fn budget(&self) -> &Budget {
        match self {
            Self::Cpu(queue) => queue.budget(),
            Self::Cuda(queue) => queue.budget(),
        }
    }

    /// Returns the same queue, whose kernels end early once `stop` is set. What they write is then incomplete, so
    /// whoever sets `stop` discards it. Kernels that a GPU has begun run to their end.
    #[must_use]
    pub fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Self {
        match self {
            Self::Cpu(queue) => Self::Cpu(queue.stopped_by(stop)),
            Self::Cuda(queue) => Self::Cuda(queue.clone()),
        }
    }

    /// Allocates the device memory that kernels share on this queue now instead of at the first
    /// run that needs it. On the CPU, memory grows with the runs.
    ///
    /// # Errors
    /// The budget or the device refuses.
    pub fn reserve_scratch(&self, bytes: usize) -> Result<()> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(queue) => queue.reserve_scratch(bytes),
        }
    }

    /// Returns a pool of the memory that its kernels work on: device memory, or host memory for the
    /// CPU.
    pub fn pool(&self, budget: &Budget) -> Pool {
        match self {
            Self::Cpu(_) => Pool::host(budget),
            Self::Cuda(queue) => Pool::device(queue.cuda(), budget),
        }
    }

    /// Waits until all work submitted so far is done.
    ///
    /// # Errors
    /// The device failed; the error may come from any work since the last wait.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(queue) => queue.synchronize(),
        }
    }

    /// Marks this point of the queue.
    ///
    /// # Errors
    /// The device refuses.
    pub fn record(&self) -> Result<Event> {
        match self {
            Self::Cpu(_) => Ok(Event::now()),
            Self::Cuda(queue) => queue.record(),
        }
    }

    /// Marks this point of the queue with an event that was recorded before, on this or another
    /// queue of the same device.
    ///
    /// # Errors
    /// The device refuses.
    pub fn record_again(&self, event: &mut Event) -> Result<()> {
        match self {
            Self::Cpu(_) => {
                *event = Event::now();
                Ok(())
            }
            Self::Cuda(queue) => queue.record_again(event),
        }
    }

    /// Makes all work submitted from now on wait for `event`, which may belong to another queue of
    /// the same device.
    ///
    /// # Errors
    /// The device refuses.
    pub fn wait(&self, event: &Event) -> Result<()> {
        match self {
            Self::Cpu(_) => event.synchronize(),
            Self::Cuda(queue) => queue.wait(event),
        }
    }

    /// Copies between any two views. Copies that touch host memory are done when this returns.
    ///
    /// # Errors
    /// The lengths differ, or the device fails.
    pub fn copy<T: Element>(&self, from: View<'_, T>, to: ViewMut<'_, T>) -> Result<()> {
        check_len("copy", to.len(), from.len())?;
        match (self, from, to) {
            (_, View::Host(from), ViewMut::Host(to)) => {
                to.copy_from_slice(from);
                Ok(())
            }
            (Self::Cuda(queue), from, to) => {
                let _span = kernel_span!(self, "copy", [from.len()], from.len() * size_of::<T>());
                queue.copy(from, to)
            }
            (Self::Cpu(_), ..) => Err(Error::invalid("copy: a CPU queue cannot reach device memory")),
        }
    }

    /// Starts a copy of the first `len` bytes between a pinned and a device buffer and returns at
    /// once; host access to the pinned buffer waits for the copy. On the CPU both are host buffers
    /// and the copy is done when this returns.
    ///
    /// # Errors
    /// A buffer is shorter than `len` or in the wrong place, or the device fails.
    pub fn start_copy(&self, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
        if from.len() < len || to.len() < len {
            let shorter = from.len().min(to.len());
            return Err(Error::invalid(format!("copy of {len} bytes: a buffer has only {shorter}")));
        }
        match self {
            Self::Cuda(queue) => {
                let _span = kernel_span!(self, "copy", [len], len);
                queue.start_copy(from, to, len)
            }
            Self::Cpu(_) => {
                to.view_mut::<u8>()?.host()?[..len].copy_from_slice(&from.view::<u8>()?.host()?[..len]);
                Ok(())
            }
        }
    }

    /// Calls `work` once for every item: on all threads of a CPU queue, or on this thread for a GPU
    /// queue.
    pub fn each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync) {
        match self {
            Self::Cuda(_) => items.iter_mut().for_each(work),
            Self::Cpu(queue) => {
                queue.run_in_parts(items, 1, |_, items| items.iter_mut().for_each(&work));
            }
        }
    }

    /// Starts recording when each kernel runs on the device; see [`Queue::device_spans`].
    ///
    /// # Errors
    /// The device refuses.
    pub fn start_timing(&self) -> Result<()> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(queue) => queue.start_timing(),
        }
    }

    /// Returns the kernels that ran since the last call, if [`Queue::start_timing`] was called.
    /// Empty on the CPU, where host spans and device spans are the same.
    ///
    /// # Errors
    /// The device failed.
    pub fn device_spans(&self) -> Result<Vec<DeviceSpan>> {
        match self {
            Self::Cpu(_) => Ok(Vec::new()),
            Self::Cuda(queue) => queue.device_spans(),
        }
    }

    /// Times one kernel on the device until dropped, if timing is on.
    pub(crate) fn time(&self, name: &'static str, bytes: u64) -> Option<Timing<'_>> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(queue) => queue.time(name, bytes),
        }
    }
}
