//! Streams: copies, launches and their order.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{result as driver, sys};

use super::timing::{DeviceSpan, Timer, Timing};
use super::{Address, Cuda, Event, Function, failed};
use crate::{Budget, Buffer, Element, Error, Result, Space, View, ViewMut};

/// A stream of a GPU. Clones are the same stream.
#[derive(Debug, Clone)]
pub struct CudaQueue {
    stream: Arc<Stream>,
    scratch: Arc<Mutex<Vec<Buffer>>>,
    budget: Budget,
    timer: Arc<Timer>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    cuda: Cuda,
    handle: sys::CUstream,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The shape of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) grid: (u32, u32, u32),
    pub(crate) block: (u32, u32, u32),
    pub(crate) shared_bytes: u32,
}

impl Stream {
    pub(super) fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.cuda.bind()?;
        // SAFETY: the stream lives until `self` is dropped.
        unsafe { driver::stream::synchronize(self.handle) }.map_err(|error| failed("finish the queue's work", error))
    }

    pub(super) fn is_capturing(&self) -> Result<bool> {
        self.cuda.bind()?;
        // SAFETY: as in `synchronize`.
        let status =
            unsafe { driver::stream::is_capturing(self.handle) }.map_err(|error| failed("read the capture", error))?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    pub(super) fn record(&self, event: &Event) -> Result<()> {
        let Some(handle) = event.handle() else { return Ok(()) };
        self.cuda.bind()?;
        // SAFETY: both handles live.
        unsafe { driver::event::record(handle, self.handle) }.map_err(|error| failed("record an event", error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.cuda.bind();
        // SAFETY: made in `CudaQueue::new`, destroyed once; the driver finishes its work first.
        let _ = unsafe { driver::stream::destroy(self.handle) };
    }
}

impl CudaQueue {
    pub(crate) fn new(cuda: &Cuda, budget: &Budget) -> Result<Self> {
        cuda.bind()?;
        let handle = driver::stream::create(driver::stream::StreamKind::NonBlocking)
            .map_err(|error| failed("make a queue", error))?;
        let stream = Arc::new(Stream { cuda: cuda.clone(), handle });
        Ok(Self {
            stream,
            scratch: Arc::default(),
            budget: budget.clone(),
            timer: Arc::new(Timer::new(cuda.ordinal())),
        })
    }

    /// The GPU it belongs to.
    pub fn cuda(&self) -> &Cuda {
        &self.stream.cuda
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.stream.handle
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.stream.synchronize()
    }

    pub(crate) fn record(&self) -> Result<Event> {
        let event = Event::new(self.cuda())?;
        self.stream.record(&event)?;
        Ok(event)
    }

    pub(crate) fn record_again(&self, event: &Event) -> Result<()> {
        self.stream.record(event)
    }

    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        let Some(handle) = event.handle() else { return Ok(()) };
        self.cuda().bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles live.
        unsafe { driver::stream::wait_event(self.handle(), handle, flags) }
            .map_err(|error| failed("wait for another queue", error))
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
                // SAFETY: as above.
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
                // SAFETY: as above.
                unsafe { driver::memcpy_htod_async(to.address(), host, self.handle()) }
            }
            (Space::Device, Space::Pinned) => {
                // SAFETY: as above.
                let host = unsafe { std::slice::from_raw_parts_mut(to.address() as *mut u8, len) };
                // SAFETY: as above.
                unsafe { driver::memcpy_dtoh_async(host, from.address(), self.handle()) }
            }
            (Space::Device, Space::Device) => {
                // SAFETY: as above, both in device memory.
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

    /// Device memory for one run, cut into parts of `lengths` bytes. It grows at the first run that needs more; earlier
    /// memory is kept, because recorded graphs go on using it.
    pub(crate) fn scratch<const N: usize>(&self, lengths: [usize; N]) -> Result<[Address; N]> {
        let padded = lengths.map(|len| len.next_multiple_of(256));
        let total = padded.iter().sum();
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Puts one kernel on the stream.
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
        self.timer.start(self)
    }

    pub(super) fn timer(&self) -> Weak<Timer> {
        Arc::downgrade(&self.timer)
    }

    pub(crate) fn time(&self, name: &'static str, bytes: u64) -> Option<Timing<'_>> {
        // A captured kernel runs at every launch of its graph; the graph is timed as a whole.
        if !self.timer.may_time() || self.stream.is_capturing().unwrap_or(true) || !self.timer.is_on(self) {
            return None;
        }
        Timing::start(self, &self.timer, name, bytes).ok()
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
