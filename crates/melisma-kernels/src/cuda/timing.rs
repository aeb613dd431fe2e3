//! When kernels ran on the device, on the host's clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{CudaQueue, Event};
use crate::Result;

/// One kernel's run on a device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpan {
    /// The kernel.
    pub name: &'static str,
    /// When it began, on the host's clock.
    pub start: Instant,
    /// How long it took.
    pub duration: Duration,
    /// Bytes it read and wrote.
    pub bytes: u64,
}

/// Ties the device's clock to the host's, and holds what was timed but not read.
#[derive(Debug)]
pub(super) struct Clock {
    origin: Event,
    origin_host: Instant,
    timed: Vec<(&'static str, u64, Event, Event)>,
}

impl Clock {
    pub(super) fn start(queue: &CudaQueue) -> Result<Self> {
        queue.synchronize()?;
        let origin = queue.record()?;
        origin.synchronize()?;
        Ok(Self { origin, origin_host: Instant::now(), timed: Vec::new() })
    }

    pub(super) fn drain(&mut self) -> Result<Vec<DeviceSpan>> {
        let origin = &self.origin;
        let place = |(name, bytes, start, end): (&'static str, u64, Event, Event)| {
            let offset = start.since(origin)?;
            Ok(DeviceSpan { name, start: self.origin_host + offset, duration: end.since(&start)?, bytes })
        };
        self.timed.drain(..).map(place).collect()
    }
}

/// Times the work put on a queue until dropped.
#[derive(Debug)]
pub(crate) struct Timing<'a> {
    queue: &'a CudaQueue,
    clock: &'a Mutex<Option<Clock>>,
    name: &'static str,
    bytes: u64,
    start: Option<Event>,
}

impl<'a> Timing<'a> {
    pub(super) fn start(
        queue: &'a CudaQueue,
        clock: &'a Mutex<Option<Clock>>,
        name: &'static str,
        bytes: u64,
    ) -> Result<Self> {
        Ok(Self { queue, clock, name, bytes, start: Some(queue.record()?) })
    }
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(clock), Some(start), Ok(end)) = (clock.as_mut(), self.start.take(), self.queue.record()) {
            clock.timed.push((self.name, self.bytes, start, end));
        }
    }
}
