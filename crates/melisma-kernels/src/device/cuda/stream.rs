//! Streams, which run the work of a GPU in order.

use super::bindings::driver::{result as driver, sys};
use super::context::Cuda;
use super::driver::failed;
use super::event::Event;
use crate::Result;

/// A stream of a GPU.
#[derive(Debug)]
pub(crate) struct Stream {
    cuda: Cuda,
    handle: sys::CUstream,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: the driver's streams may be used from any thread.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(cuda: &Cuda) -> Result<Self> {
        cuda.bind()?;
        let handle = driver::stream::create(driver::stream::StreamKind::NonBlocking)
            .map_err(|error| failed("make a queue", error))?;
        Ok(Self { cuda: cuda.clone(), handle })
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// Records a new event at this point of the stream.
    pub(crate) fn mark(&self) -> Result<Event> {
        let event = Event::new(&self.cuda)?;
        self.record(&event)?;
        Ok(event)
    }

    pub(crate) fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.cuda.bind()?;
        // SAFETY: the stream lives until `self` is dropped.
        unsafe { driver::stream::synchronize(self.handle) }.map_err(|error| failed("finish the queue's work", error))
    }

    pub(crate) fn is_capturing(&self) -> Result<bool> {
        self.cuda.bind()?;
        // SAFETY: the stream lives until `self` is dropped.
        let status =
            unsafe { driver::stream::is_capturing(self.handle) }.map_err(|error| failed("read the capture", error))?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    pub(crate) fn record(&self, event: &Event) -> Result<()> {
        let Some(handle) = event.handle() else { return Ok(()) };
        self.cuda.bind()?;
        // SAFETY: both handles are alive.
        unsafe { driver::event::record(handle, self.handle) }.map_err(|error| failed("record an event", error))
    }

    /// Makes everything submitted from now on wait for `event`.
    pub(crate) fn wait(&self, event: &Event) -> Result<()> {
        let Some(handle) = event.handle() else { return Ok(()) };
        self.cuda.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are alive.
        unsafe { driver::stream::wait_event(self.handle, handle, flags) }
            .map_err(|error| failed("wait for another queue", error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.cuda.bind();
        // SAFETY: made in `new`, destroyed once; the driver finishes its work first.
        let _ = unsafe { driver::stream::destroy(self.handle) };
    }
}
