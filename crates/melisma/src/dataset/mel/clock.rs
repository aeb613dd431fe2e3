//! Measures when a GPU worked for a build.

use melisma_kernels::Event;
use melisma_kernels::lock::Mutex;

use crate::Result;
use crate::dataset::counters::{Counters, Stage};
use crate::runtime::device::Queue;
use crate::trace::Busy;

const STAGES: [Stage; 3] = [Stage::ToDevice, Stage::Compute, Stage::FromDevice];

/// Collects the times of copies and kernels, which may overlap.
#[derive(Debug)]
pub(super) struct Clock {
    origin: Event,
    /// Copies in, kernels, copies out, and any of them.
    busy: Mutex<[Busy; 4]>,
}

/// Events at the start and end of each part of a slot's launch: copies in, kernels, copies out.
/// Events are created once; creating them for every launch would make threads wait for each other
/// in the driver.
#[derive(Debug)]
pub(super) struct LaunchEvents([[Event; 2]; 3]);

impl LaunchEvents {
    pub(super) fn new(queue: &Queue) -> Result<Self> {
        let pair = || Ok([queue.record()?, queue.record()?]);
        Ok(Self([pair()?, pair()?, pair()?]))
    }

    pub(super) fn begin(&mut self, part: usize, queue: &Queue) -> Result<()> {
        queue.record_again(&mut self.0[part][0])
    }

    /// Records the end of `part`; returns the event that the next part waits for.
    pub(super) fn end(&mut self, part: usize, queue: &Queue) -> Result<&Event> {
        queue.record_again(&mut self.0[part][1])?;
        Ok(&self.0[part][1])
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.0[2][1].synchronize()
    }
}

impl Clock {
    pub(super) fn start(queue: &Queue) -> Result<Self> {
        let origin = queue.record()?;
        origin.synchronize()?;
        Ok(Self { origin, busy: Mutex::default() })
    }

    /// Adds a completed launch.
    pub(super) fn add(&self, events: &LaunchEvents) -> Result<()> {
        let mut all = [(0, 0); 3];
        for ([start, end], place) in events.0.iter().zip(&mut all) {
            *place = (start.since(&self.origin)?.as_nanos() as u64, end.since(&self.origin)?.as_nanos() as u64);
        }
        let mut busy = self.busy.lock();
        for (index, (start, end)) in all.into_iter().enumerate() {
            busy[index].add(start, end);
            busy[3].add(start, end);
        }
        Ok(())
    }

    /// Reports to the counters how many seconds each part was active.
    pub(super) fn tell(self, counters: &Counters) {
        let mut busy = self.busy.into_inner();
        for (stage, busy) in STAGES.into_iter().zip(&mut busy) {
            counters.add(stage, busy.covered());
        }
        counters.device_was_busy(busy[3].covered());
    }
}
