//! Where work runs.

use std::num::NonZeroU64;

use melisma_kernels::{Budget, Device, Queue};

use crate::Result;
use crate::config::{Config, DeviceRequest, Limit, Threads};
use crate::runtime::{MemoryTracker, device, memory};

/// Where work runs: a device, the memory that it may take, and the queue that keeps it in order. Clones share all three.
///
/// ```
/// use melisma::Context;
/// use melisma::snac::Decoder;
///
/// let context = Context::builder().with_threads(2).with_memory_limit(256 << 20).build()?;
/// let decoder = Decoder::open_in(&context, "builtin:mini24")?;
/// println!("{} on {}", decoder.sample_rate(), context.device());
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    device: Device,
    memory: MemoryTracker,
    queue: Queue,
}

impl Context {
    /// Returns the CPU with all its threads, and no limit of memory.
    ///
    /// # Errors
    /// `MELISMA_ISA` names an unknown or unavailable instruction set.
    pub fn cpu() -> Result<Self> {
        Self::builder().with_device(DeviceRequest::Cpu).build()
    }

    /// Returns the first GPU, else the CPU.
    ///
    /// # Errors
    /// As [`Context::cpu`], or the GPU gives no queue.
    pub fn auto() -> Result<Self> {
        Self::builder().build()
    }

    /// Returns a context with other settings.
    pub fn builder() -> ContextBuilder {
        ContextBuilder { device: DeviceRequest::Auto, threads: Threads::Auto, memory_limit: Limit::NONE }
    }

    /// Returns the device, threads and memory limit of `config`.
    ///
    /// # Errors
    /// As [`ContextBuilder::build`].
    pub fn of(config: &Config) -> Result<Self> {
        let (device, threads) = (config.device.value, config.threads.value);
        ContextBuilder { device, threads, memory_limit: config.memory_limit.value }.build()
    }

    /// Creates a context of an opened device that counts in `memory`, which can be a [`Budget`].
    ///
    /// # Errors
    /// The device gives no queue.
    pub fn on(device: Device, memory: impl Into<MemoryTracker>) -> Result<Self> {
        let memory = memory.into();
        let queue = device.queue(memory.budget())?;
        Ok(Self { device, memory, queue })
    }

    /// Creates a context of a queue that counts in `budget`.
    pub(crate) fn of_queue(queue: &Queue, budget: &Budget) -> Self {
        Self { device: queue.device(), memory: budget.clone().into(), queue: queue.clone() }
    }

    /// Returns its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the memory that its work may take, and takes.
    pub fn budget(&self) -> &Budget {
        self.memory.budget()
    }

    /// Returns the same memory by named scopes.
    pub fn memory(&self) -> &MemoryTracker {
        &self.memory
    }

    /// Returns its queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

/// The settings of a [`Context`]; without any, they are those of [`Context::auto`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is opened before `build`"]
pub struct ContextBuilder {
    device: DeviceRequest,
    threads: Threads,
    memory_limit: Limit,
}

impl ContextBuilder {
    /// Sets the device; one that is asked for by name is never replaced by another.
    pub fn with_device(mut self, device: DeviceRequest) -> Self {
        self.device = device;
        self
    }

    /// Sets threads of a CPU, 1 to 1024.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Threads::Count(threads);
        self
    }

    /// Sets the most bytes that Melisma may allocate, beside the program itself, on host and device each.
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Limit(NonZeroU64::new(bytes.max(1)));
        self
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) for a number of threads that cannot work;
    /// [`ErrorKind::Device`](crate::ErrorKind) if the GPU that was asked for is unusable; otherwise as [`Context::cpu`].
    pub fn build(self) -> Result<Context> {
        let device = device::select(self.device, self.threads)?;
        let memory = MemoryTracker::new(memory::budget(self.memory_limit, &device));
        Context::on(device, memory)
    }
}
