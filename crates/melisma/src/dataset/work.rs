//! State that the threads of a build share.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use melisma_kernels::Cpu;
use melisma_kernels::lock::Mutex;

use super::counters::Counters;
use super::failure::{Action, Failure, RowFailure};
use super::plan::Plan;
use super::store::Store;
use super::store::journal::{Journal, Record};
use super::technique::Techniques;
use crate::runtime::device::Device;
use crate::runtime::memory::Budget;
use crate::runtime::thread;
use crate::{Error, Remedy, Result};

/// How often rows are synced to disk. A crash of the machine loses at most this much work.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// Rows of one file that one thread computes, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) first_row: u32,
    pub(super) n_rows: u32,
}

/// The inputs of all threads.
pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a Store,
    pub(super) device: &'a Device,
    pub(super) budget: &'a Budget,
    pub(super) counters: &'a Counters,
    pub(super) journal: Mutex<Journal>,
    pub(super) techniques: Techniques,
    /// Whether the build stops at the first file that fails.
    pub(super) stops_on_failure: bool,
}

/// The indices of the columns that are written row by row.
pub(super) struct Columns {
    /// `mel` or `codes`.
    pub(super) values: usize,
    pub(super) status: usize,
    pub(super) checksum: usize,
    pub(super) row_hash: usize,
}

/// State shared by the running threads.
pub(super) struct Shared<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) columns: Columns,
    /// The most threads that have something to do.
    pub(super) n_threads: usize,
    pub(super) stop: AtomicBool,
    pub(super) failures: Mutex<Vec<RowFailure>>,
    pub(super) synced: Mutex<Instant>,
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
    /// Makes workers with `make` while the disk space of the output is allocated: both take a
    /// while.
    pub(super) fn prepare<T: Send>(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let (made, reserved) = std::thread::scope(|scope| {
            let reserving = thread::start_in(scope, || self.work.store.reserve())?;
            Ok((make(), reserving.join().unwrap_or(Ok(()))))
        })?;
        reserved?;
        made
    }

    /// Runs one part of the work. Its error stops the others.
    pub(super) fn attempt(&self, work: impl FnOnce() -> Result<()>) {
        if let Err(error) = work() {
            self.stop.store(true, Relaxed);
            self.failed.lock().get_or_insert(error);
        }
    }

    /// Whether the work ends early: part of it failed, or the caller stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.attempt(|| self.work.counters.check_stop());
        self.stop.load(Relaxed)
    }

    /// The next items for a thread; empty when all are taken or the work was stopped.
    pub(super) fn take(&self) -> &[Item] {
        if self.is_stopped() {
            return &[];
        }
        let first = self.next.fetch_add(self.n_at_once, Relaxed).min(self.items.len());
        &self.items[first..(first + self.n_at_once).min(self.items.len())]
    }

    /// Records written rows in the journal.
    pub(super) fn record(&self, record: Record) -> Result<()> {
        let Work { store, journal, .. } = self.work;
        let n = record.rows.iter().map(|&(_, n)| u64::from(n)).sum::<u64>();
        let mut synced = self.synced.lock();
        let mut journal = journal.lock();
        journal.record(record)?;
        if synced.elapsed() > SYNC_EVERY {
            store.sync()?;
            journal.synced()?;
            *synced = Instant::now();
        }
        drop(journal);
        drop(synced);
        let done = self.done.fetch_add(n, Relaxed) + n;
        for (mark, share) in self.marks.iter().zip([1, 9]) {
            if 10 * done >= share * self.n_rows {
                mark.get_or_init(Instant::now);
            }
        }
        self.work.counters.check_stop()
    }

    /// Lists a row that failed, or stops the build. The caller records the failure in the journal
    /// together with the row.
    pub(super) fn fail(&self, row: u32, stage: &str, error: &Error) -> Result<RowFailure> {
        let Work { plan, counters, stops_on_failure, .. } = self.work;
        let name = plan.input_of(&plan.rows[row as usize]).name();
        if *stops_on_failure {
            return Err(Error::new(error.kind(), format!("{}: {error}", name)).with_hint(Remedy::SkipFailures));
        }
        counters.failed.fetch_add(1, Relaxed);
        Ok(self.list(row, Failure::new(name.into_owned(), stage, error, Action::ZeroFilled)))
    }

    /// Adds to the list of failures.
    pub(super) fn list(&self, row: u32, failure: Failure) -> RowFailure {
        let plan = self.work.plan;
        let failed = RowFailure { file: plan.file(&plan.rows[row as usize]).index, row, failure };
        self.failures.lock().push(failed.clone());
        failed
    }
}

/// The device for one of many threads: a CPU with one thread, or the same GPU.
pub(super) fn for_one_thread(device: &Device) -> Device {
    match device {
        Device::Cpu(cpu) => Device::Cpu(Cpu { threads: 1, ..*cpu }),
        Device::Cuda(_) => device.clone(),
    }
}
