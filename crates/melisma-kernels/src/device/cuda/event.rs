//! Points in a queue's work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{result as driver, sys};

use super::queue::Stream;
use super::{Cuda, failed};
use crate::{Error, Result};

/// A point in the work of a queue.
#[derive(Debug)]
pub struct Event(Point);

#[derive(Debug)]
enum Point {
    /// Work on the CPU is done when its call returns.
    Host(Instant),
    Device(Handle),
}

#[derive(Debug)]
struct Handle {
    cuda: Cuda,
    event: sys::CUevent,
}

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Event {
    pub(crate) fn now() -> Self {
        Self(Point::Host(Instant::now()))
    }

    /// An event not recorded yet.
    pub(super) fn new(cuda: &Cuda) -> Result<Self> {
        cuda.bind()?;
        let event = driver::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|error| failed("make an event", error))?;
        Ok(Self(Point::Device(Handle { cuda: cuda.clone(), event })))
    }

    pub(super) fn handle(&self) -> Option<sys::CUevent> {
        match &self.0 {
            Point::Host(_) => None,
            Point::Device(handle) => Some(handle.event),
        }
    }

    /// Waits until the work before it is done.
    ///
    /// # Errors
    /// The device failed.
    pub fn synchronize(&self) -> Result<()> {
        let Point::Device(handle) = &self.0 else { return Ok(()) };
        handle.cuda.bind()?;
        // SAFETY: the event lives until `Handle` is dropped.
        unsafe { driver::event::synchronize(handle.event) }.map_err(|error| failed("wait for an event", error))
    }

    /// The time from `earlier` to this event, once both have happened.
    ///
    /// # Errors
    /// The events are of different devices, or have not happened.
    pub fn since(&self, earlier: &Self) -> Result<Duration> {
        match (&self.0, &earlier.0) {
            (Point::Host(end), Point::Host(start)) => Ok(end.saturating_duration_since(*start)),
            (Point::Device(end), Point::Device(start)) => {
                // SAFETY: both events live, of the same driver.
                let milliseconds = unsafe { driver::event::elapsed(start.event, end.event) }
                    .map_err(|error| failed("time two events", error))?;
                Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
            }
            _ => Err(Error::invalid("the two events are of different devices")),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.cuda.bind();
        // SAFETY: made in `Event::new`, destroyed once.
        let _ = unsafe { driver::event::destroy(self.event) };
    }
}

/// The copies that may still use a pinned buffer.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Made at the first copy, recorded again at each.
    event: Option<Event>,
    /// The stream of the last copy that was not waited for.
    pending: Option<Arc<Stream>>,
    /// The stream of a captured copy, which happens again at every launch of its graph.
    replayed: Option<Arc<Stream>>,
}

impl InFlight {
    /// Notes that a copy was just put on `stream`.
    pub(super) fn mark(&mut self, stream: &Arc<Stream>) -> Result<()> {
        if stream.is_capturing()? {
            self.replayed = Some(stream.clone());
            return Ok(());
        }
        if self.pending.as_ref().is_some_and(|pending| !Arc::ptr_eq(pending, stream)) {
            self.wait()?;
        }
        if self.event.is_none() {
            self.event = Some(Event::new(stream.cuda())?);
        }
        if let Some(event) = &self.event {
            stream.record(event)?;
        }
        self.pending = Some(stream.clone());
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> Result<()> {
        if self.pending.take().is_some()
            && let Some(event) = &self.event
        {
            event.synchronize()?;
        }
        self.replayed.as_ref().map_or(Ok(()), |stream| stream.synchronize())
    }
}
