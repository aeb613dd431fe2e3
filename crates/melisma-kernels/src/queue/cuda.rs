//! A queue on a GPU: copies, launches and scratch memory on one stream.

use std::ffi::c_void;
use std::sync::Arc;

use crate::device::cuda::bindings::driver::{result as driver, sys};
use crate::device::cuda::{Address, Cuda, DeviceSpan, Event, Function, Stream, Timer, Timing, failed};
use crate::lock::Mutex;
use crate::{Budget, Buffer, Element, Error, Result, Space, View, ViewMut};

/// A stream of a GPU. Clones are the same stream.
#[derive(Debug, Clone)]
pub struct CudaQueue {
    stream: Arc<Stream>,
    scratch: Arc<Mutex<Vec<Buffer>>>,
    budget: Budget,
    timer: Arc<Timer>,
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) grid: (u32, u32, u32),
    pub(crate) block: (u32, u32, u32),
    pub(crate) shared_bytes: u32,
}

impl Launch {
    /// Returns blocks of 256 threads that share `n` work items.
    pub(crate) fn shared(queue: &CudaQueue, n: usize) -> Self {
        Self { grid: (blocks(queue, n), 1, 1), block: (256, 1, 1), shared_bytes: 0 }
    }

    /// Returns `n_blocks` blocks of 256 threads, at least one, for each of `n_rows` rows of a step.
    pub(crate) fn per_row(n_blocks: usize, n_rows: usize) -> Self {
        let grid = (n_blocks.max(1) as u32, n_rows.min(65_535) as u32, 1);
        Self { grid, block: (256, 1, 1), shared_bytes: 0 }
    }
}

/// Returns the number of blocks of 256 threads for `n` work items: at least one, and at most a few
/// waves on the device.
pub(crate) fn blocks(queue: &CudaQueue, n: usize) -> u32 {
    let most = queue.cuda().n_processors() as usize * 64;
    n.div_ceil(256).clamp(1, most) as u32
}

/// Returns the bytes that a part of `len` bytes takes in the scratch of a queue.
pub(crate) fn scratch_bytes(len: usize) -> usize {
    len.next_multiple_of(256)
}

impl CudaQueue {
    pub(crate) fn new(cuda: &Cuda, budget: &Budget) -> Result<Self> {
        Ok(Self {
            stream: Arc::new(Stream::new(cuda)?),
            scratch: Arc::default(),
            budget: budget.clone(),
            timer: Arc::new(Timer::new(cuda.ordinal())),
        })
    }

    /// Returns the GPU it belongs to.
    pub fn cuda(&self) -> &Cuda {
        self.stream.cuda()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.stream.handle()
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.stream.synchronize()
    }

    pub(crate) fn record(&self) -> Result<Event> {
        self.stream.mark()
    }

    pub(crate) fn record_again(&self, event: &Event) -> Result<()> {
        self.stream.record(event)
    }

    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        self.stream.wait(event)
    }

    pub(crate) fn copy<T: Element>(&self, from: View<'_, T>, to: ViewMut<'_, T>) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        self.cuda().bind()?;
        let bytes = from.len() * size_of::<T>();
        let failure = |error| failed(&format!("copy {bytes} bytes"), error);
        match (from, to) {
            (View::Host(from), ViewMut::Cuda(to)) => {
                // SAFETY: both sides hold `bytes` bytes, checked by the caller; the host's stays borrowed until the
                // synchronisation.
                unsafe { driver::memcpy_htod_async(to.address_dev, from, self.handle()) }.map_err(failure)?;
                self.synchronize()
            }
            (View::Cuda(from), ViewMut::Host(to)) => {
                // SAFETY: both sides hold `bytes` bytes, checked by the caller; the host's stays borrowed until the
                // synchronisation.
                unsafe { driver::memcpy_dtoh_async(to, from.address_dev, self.handle()) }.map_err(failure)?;
                self.synchronize()
            }
            (View::Cuda(from), ViewMut::Cuda(to)) => {
                // SAFETY: both sides hold `bytes` bytes of device memory.
                unsafe { driver::memcpy_dtod_async(to.address_dev, from.address_dev, bytes, self.handle()) }
                    .map_err(failure)
            }
            (View::Host(_), ViewMut::Host(_)) => Err(Error::invalid("copy: both sides are host memory")),
        }
    }

    pub(crate) fn start_copy(&self, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
        self.cuda().bind()?;
        let copied = match (from.space(), to.space()) {
            (Space::Pinned, Space::Device) => {
                // SAFETY: both buffers hold `len` bytes (checked by the caller), and the pinned one remembers the copy.
                let host = unsafe { std::slice::from_raw_parts(from.address() as *const u8, len) };
                // SAFETY: the device's buffer holds `len` bytes too, and host access to the pinned one waits for the copy.
                unsafe { driver::memcpy_htod_async(to.address(), host, self.handle()) }
            }
            (Space::Device, Space::Pinned) => {
                // SAFETY: both buffers hold `len` bytes (checked by the caller), and the pinned one remembers the copy.
                let host = unsafe { std::slice::from_raw_parts_mut(to.address() as *mut u8, len) };
                // SAFETY: the device's buffer holds `len` bytes too, and host access to the pinned one waits for the copy.
                unsafe { driver::memcpy_dtoh_async(host, from.address(), self.handle()) }
            }
            (Space::Device, Space::Device) => {
                // SAFETY: both buffers hold `len` bytes of device memory, checked by the caller.
                unsafe { driver::memcpy_dtod_async(to.address(), from.address(), len, self.handle()) }
            }
            (from, to) => {
                let places = format!("from {} to {} memory", from.name(), to.name());
                return Err(Error::invalid(format!("copies {places} cannot overlap with work"))
                    .with_hint("use pinned memory on the host's side"));
            }
        };
        copied.map_err(|error| failed(&format!("copy {len} bytes"), error))?;
        for pinned in [from, to].into_iter().filter(|buffer| buffer.space() == Space::Pinned) {
            pinned.in_flight().mark(&self.stream)?;
        }
        Ok(())
    }

    /// Grows the memory that [`CudaQueue::scratch`] cuts up to `bytes` for one part.
    pub(crate) fn reserve_scratch(&self, bytes: usize) -> Result<()> {
        self.scratch([bytes]).map(drop)
    }

    /// Returns device memory for one run, cut into parts of `lengths` bytes. It grows at the first run that
    /// needs more; earlier memory stays allocated because recorded graphs still use it.
    pub(crate) fn scratch<const N: usize>(&self, lengths: [usize; N]) -> Result<[Address; N]> {
        let padded = lengths.map(scratch_bytes);
        let total = padded.iter().sum();
        let mut scratch = self.scratch.lock();
        if scratch.last().map_or(0, Buffer::len) < total {
            scratch.push(Buffer::device(self.cuda(), &self.budget, total)?);
        }
        let mut next = scratch.last().map_or(0, Buffer::address);
        Ok(padded.map(|len| {
            let part = next;
            next += len as Address;
            part
        }))
    }

    pub(crate) fn fill_zero(&self, address_dev: Address, bytes: usize) -> Result<()> {
        self.cuda().bind()?;
        // SAFETY: the caller's view holds `bytes` bytes.
        unsafe { driver::memset_d8_async(address_dev, 0, bytes, self.handle()) }
            .map_err(|error| failed("fill memory", error))
    }

    /// Launches one kernel on the stream.
    ///
    /// # Safety
    /// `arguments` point to values of the kernel's parameter types, in order, and every device pointer among them holds
    /// what the kernel reads and writes.
    pub(crate) unsafe fn launch(
        &self,
        function: &Function,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        self.cuda().bind()?;
        let Launch { grid, block, shared_bytes } = launch;
        // SAFETY: the caller's promise; the function's module lives as long as the function.
        unsafe { driver::launch_kernel(function.handle(), grid, block, shared_bytes, self.handle(), arguments) }
            .map_err(|error| failed(&format!("launch {}", function.name()), error))
    }

    pub(crate) fn start_timing(&self) -> Result<()> {
        self.timer.start(&self.stream)
    }

    pub(crate) fn time(&self, name: &'static str, bytes: u64) -> Option<Timing<'_>> {
        // A captured kernel runs at every launch of its graph; the graph is timed as a whole.
        if !self.timer.may_time() || self.stream.is_capturing().unwrap_or(true) || !self.timer.is_on(&self.stream) {
            return None;
        }
        Timing::start(&self.stream, &self.timer, name, bytes).ok()
    }

    pub(crate) fn device_spans(&self) -> Result<Vec<DeviceSpan>> {
        self.synchronize()?;
        self.timer.spans()
    }
}

/// The argument list of a launch: pointers to the given variables.
macro_rules! arguments {
    ($($variable:ident),+ $(,)?) => { &mut [$((&raw const $variable).cast_mut().cast::<std::ffi::c_void>()),+] };
}
pub(crate) use arguments;
