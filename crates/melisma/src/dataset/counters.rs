//! What has been done so far, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The parts of the work.
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
}

/// Counters that all threads share.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) files: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) samples: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    nanos: [AtomicU64; 5],
}

/// The counters at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Snapshot {
    /// Files whose rows are all done.
    pub files: u64,
    /// Files that failed after the scan.
    pub failed: u64,
    /// Rows written in this run.
    pub rows: u64,
    /// Samples transformed in this run.
    pub samples: u64,
    /// Bytes of samples read.
    pub bytes_read: u64,
    /// Bytes of rows written.
    pub bytes_written: u64,
    /// Seconds of all threads together, per [`Stage`].
    pub seconds: [f64; 5],
}

impl Counters {
    /// The counters now.
    pub fn now(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Snapshot {
            files: get(&self.files),
            failed: get(&self.failed),
            rows: get(&self.rows),
            samples: get(&self.samples),
            bytes_read: get(&self.bytes_read),
            bytes_written: get(&self.bytes_written),
            seconds: [0, 1, 2, 3, 4].map(|i| Duration::from_nanos(get(&self.nanos[i])).as_secs_f64()),
        }
    }

    /// Runs `work` and counts its time.
    pub(super) fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.nanos[stage as usize].fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        result
    }
}
