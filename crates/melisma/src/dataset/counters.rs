//! Lock-free progress counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::{Error, Result};

/// The stages of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading and decoding files.
    Read,
    /// Copies to the device.
    ToDevice,
    /// The transform.
    Compute,
    /// Copies from the device.
    FromDevice,
    /// Writing rows.
    Write,
    /// Submitting work to the device and waiting for it.
    Wait,
}

impl Stage {
    /// All stages, in the order of tables.
    pub const ALL: [Self; 6] = [Self::Read, Self::ToDevice, Self::Compute, Self::FromDevice, Self::Write, Self::Wait];

    /// Returns the name used in tables and messages.
    pub fn name(self) -> &'static str {
        ["read", "h2d", "compute", "d2h", "write", "wait"][self as usize]
    }

    /// Returns the stage's span in a trace, in which `bytes` can be recorded.
    pub(super) fn span(self) -> Span {
        match self {
            Self::Read => info_span!("read", bytes = Empty),
            Self::ToDevice => info_span!("h2d", bytes = Empty),
            Self::Compute => info_span!("compute", bytes = Empty),
            Self::FromDevice => info_span!("d2h", bytes = Empty),
            Self::Write => info_span!("write", bytes = Empty),
            Self::Wait => info_span!("wait", bytes = Empty),
        }
    }
}

/// Counters that all threads share.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) files: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) recovered: AtomicU64,
    nanos: [AtomicU64; 6],
    device_nanos: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// The counters at one point in time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Files whose rows are all written.
    pub files: u64,
    /// Files that failed after the scan.
    pub failed: u64,
    /// Rows written in this run.
    pub rows: u64,
    /// Samples transformed in this run.
    pub samples: u64,
    /// Bytes of samples read, without padding.
    pub bytes_read: u64,
    /// Bytes of samples with their padding, as a device gets them.
    pub bytes_sent: u64,
    /// Bytes of rows written.
    pub bytes_written: u64,
    /// How often a launch ran out of memory and was repeated in smaller parts.
    pub recovered: u64,
    /// Seconds per [`Stage`], summed over all threads. For the stages of a GPU, the seconds in
    /// which any of that work ran.
    pub seconds: [f64; 6],
    /// Seconds in which a GPU copied or computed.
    pub device_seconds: f64,
}

impl Counters {
    /// Creates counters of work that ends with an error soon after `stop` is set. The finished rows of a
    /// build stay on disk, and the same request resumes from there.
    pub fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// Fails once the work was asked to stop.
    ///
    /// # Errors
    /// The work was asked to stop.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Relaxed) { Err(Error::invalid("the work was stopped")) } else { Ok(()) }
    }

    /// Returns a snapshot of the counters.
    pub fn now(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let seconds = |counter: &AtomicU64| Duration::from_nanos(get(counter)).as_secs_f64();
        Snapshot {
            files: get(&self.files),
            failed: get(&self.failed),
            rows: get(&self.rows),
            samples: get(&self.samples),
            bytes_read: get(&self.bytes_read),
            bytes_sent: get(&self.bytes_sent),
            bytes_written: get(&self.bytes_written),
            recovered: get(&self.recovered),
            seconds: Stage::ALL.map(|stage| seconds(&self.nanos[stage as usize])),
            device_seconds: seconds(&self.device_nanos),
        }
    }

    /// Runs `work` and adds its time to `stage`.
    pub(super) fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let _span = stage.span().entered();
        let start = Instant::now();
        let result = work();
        self.add(stage, start.elapsed().as_nanos() as u64);
        result
    }

    pub(super) fn add(&self, stage: Stage, nanos: u64) {
        self.nanos[stage as usize].fetch_add(nanos, Relaxed);
    }

    pub(super) fn device_was_busy(&self, nanos: u64) {
        self.device_nanos.fetch_add(nanos, Relaxed);
    }
}

impl Snapshot {
    /// Returns the share of the time that each resource was busy in a run of `wall_seconds` on
    /// `threads` threads. The first one limited the run.
    pub fn usage(&self, wall_seconds: f64, threads: usize) -> Vec<(&'static str, f64)> {
        let wall = wall_seconds.max(1e-9);
        let [read, to_device, compute, from_device, write, _] = self.seconds;
        let of_threads = |seconds: f64| seconds / (wall * threads.max(1) as f64);
        let mut usage = if self.device_seconds > 0.0 {
            vec![
                ("the host's threads", of_threads(read + write)),
                ("copies to the device", to_device / wall),
                ("the device's kernels", compute / wall),
                ("copies from the device", from_device / wall),
            ]
        } else {
            vec![("reading", of_threads(read)), ("the transform", of_threads(compute)), ("writing", of_threads(write))]
        };
        usage.sort_by(|a, b| b.1.total_cmp(&a.1));
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_lose_no_count() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        counters.rows.fetch_add(1, Relaxed);
                        counters.add(Stage::Read, 1_000);
                    }
                });
            }
        });
        let found = counters.now();
        assert_eq!((found.rows, found.seconds[Stage::Read as usize]), (80_000, 0.08));
    }

    #[test]
    fn the_busiest_resource_limits() {
        let mut counters = Snapshot { seconds: [1.0, 0.0, 6.0, 0.0, 0.5, 0.0], ..Snapshot::default() };
        assert_eq!(counters.usage(4.0, 2)[0], ("the transform", 0.75));
        counters = Snapshot { seconds: [9.0, 3.0, 1.0, 1.0, 5.0, 0.1], device_seconds: 3.5, ..counters };
        assert_eq!(counters.usage(4.0, 4)[0], ("the host's threads", 0.875));
        assert_eq!(counters.usage(4.0, 4)[1], ("copies to the device", 0.75));
    }
}
