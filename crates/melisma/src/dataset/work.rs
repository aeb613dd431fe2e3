//! State that the threads of a build share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use melisma_kernels::Cpu;

use super::counters::Counters;
use super::failure::RowFailure;
use super::journal::Journal;
use super::mel::clock::Clock;
use super::mel::slot::{Queues, Shape};
use super::plan::{Options, Plan};
use super::store::Store;
use super::technique::{Streams, Techniques};
use crate::mel::Transform;
use crate::runtime::device::Device;
use crate::runtime::memory::Budget;
use crate::{Error, Result};

/// Rows of one file that one thread computes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) first_row: u32,
    pub(super) n_rows: u32,
}

/// How the work is divided; the values do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    pub(super) threads: usize,
    /// Slots per thread.
    pub(super) n_slots: usize,
    /// Rows per slot.
    pub(super) n_rows: usize,
}

/// The inputs of all threads.
pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) device: &'a Device,
    pub(super) budget: &'a Budget,
    pub(super) transform: &'a Transform,
    pub(super) counters: &'a Counters,
    pub(super) journal: Mutex<Journal>,
    pub(super) tuning: Tuning,
    pub(super) techniques: Techniques,
    /// Whether the build stops at the first file that fails.
    pub(super) stops_on_failure: bool,
}

/// The indices of the columns that are written row by row.
pub(super) struct Columns {
    pub(super) mel: usize,
    pub(super) status: usize,
    pub(super) checksum: usize,
    pub(super) row_hash: usize,
}

/// State shared by the running threads.
pub(super) struct Shared<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) columns: Columns,
    pub(super) clock: Option<Clock>,
    /// The queues of all threads, if they share them.
    pub(super) queues: Option<Queues>,
    pub(super) stop: AtomicBool,
    pub(super) failures: Mutex<Vec<RowFailure>>,
    pub(super) synced: Mutex<Instant>,
    pub(super) launches: AtomicU64,
    pub(super) items: Vec<Item>,
    pub(super) next: AtomicUsize,
    pub(super) n_at_once: usize,
    pub(super) failed: Mutex<Option<Error>>,
    pub(super) n_rows: u64,
    pub(super) done: AtomicU64,
    /// When 10 % and 90 % of the rows were done.
    pub(super) marks: [OnceLock<Instant>; 2],
}

impl Shared<'_> {
    /// The next items for a thread; empty when all are taken or the work was stopped.
    pub(super) fn take(&self) -> &[Item] {
        if self.stop.load(Relaxed) {
            return &[];
        }
        let first = self.next.fetch_add(self.n_at_once, Relaxed).min(self.items.len());
        &self.items[first..(first + self.n_at_once).min(self.items.len())]
    }

    pub(super) fn rows_are_done(&self, n: u64) {
        let done = self.done.fetch_add(n, Relaxed) + n;
        for (mark, share) in self.marks.iter().zip([1, 9]) {
            if 10 * done >= share * self.n_rows {
                mark.get_or_init(Instant::now);
            }
        }
    }
}

/// The shape of slots of `n_rows` rows.
pub(super) fn shape(options: &Options, n_rows: usize) -> Shape {
    let n_frames = options.n_frames();
    Shape {
        n_rows,
        n_samples: options.segment_samples,
        n_frames,
        n_values: options.mel.n_mels * n_frames,
        dtype: options.mel.dtype,
    }
}

/// The device for one of many threads: a CPU with one thread, or the same GPU.
pub(super) fn for_one_thread(device: &Device) -> Device {
    match device {
        Device::Cpu(cpu) => Device::Cpu(Cpu { threads: 1, ..*cpu }),
        Device::Cuda(_) => device.clone(),
    }
}

/// One queue for copies and kernels.
pub(super) fn one_queue(device: &Device, budget: &Budget) -> Result<Queues> {
    let queue = device.queue(budget)?;
    Ok(Queues { input: queue.clone(), compute: queue.clone(), output: queue })
}

/// The queues of one thread.
pub(super) fn queues(device: &Device, budget: &Budget, streams: Streams) -> Result<Queues> {
    match (device, streams) {
        (Device::Cuda(_), Streams::Split) => {
            let queue = || device.queue(budget);
            Ok(Queues { input: queue()?, compute: queue()?, output: queue()? })
        }
        _ => one_queue(device, budget),
    }
}
