//! Markers in a queue's work.

use std::time::{Duration, Instant};

use super::bindings::driver::{result as driver, sys};
use super::context::Cuda;
use super::driver::failed;
use crate::{Error, Result};

/// A marker in the work of a queue.
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
// SAFETY: the driver's events may be used from any thread.
unsafe impl Sync for Handle {}

impl Event {
    pub(crate) fn now() -> Self {
        Self(Point::Host(Instant::now()))
    }

    /// Creates an event that is not recorded yet.
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

    /// Waits until all work before the event is done.
    ///
    /// # Errors
    /// The device failed.
    pub fn synchronize(&self) -> Result<()> {
        let Point::Device(handle) = &self.0 else { return Ok(()) };
        handle.cuda.bind()?;
        // SAFETY: the event lives until `Handle` is dropped.
        unsafe { driver::event::synchronize(handle.event) }.map_err(|error| failed("wait for an event", error))
    }

    /// Returns the time from `earlier` to this event, once both have happened.
    ///
    /// # Errors
    /// The events belong to different devices, or have not happened.
    pub fn since(&self, earlier: &Self) -> Result<Duration> {
        match (&self.0, &earlier.0) {
            (Point::Host(end), Point::Host(start)) => Ok(end.saturating_duration_since(*start)),
            (Point::Device(end), Point::Device(start)) => {
                // SAFETY: both events are alive and belong to the same driver.
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
