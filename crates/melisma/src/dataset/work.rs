//! State that the threads of a build share.

use std::collections::HashSet;
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
use crate::text::count;
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
    pub(super) failed: FailedFiles,
}

/// The files that have failed, of which there may be only so many.
#[derive(Debug)]
pub(super) struct FailedFiles {
    most: Option<usize>,
    files: Mutex<HashSet<u32>>,
}

impl FailedFiles {
    /// Begins with the files that earlier runs and the plan refused.
    pub(super) fn new<'a>(most: Option<usize>, refused: impl Iterator<Item = &'a RowFailure>) -> Self {
        let files = refused.filter(|refused| refused.failure.is_refusal()).map(|refused| refused.file);
        Self { most, files: Mutex::new(files.collect()) }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// Those are too many.
    pub(super) fn add(&self, file: u32, (name, error): (&str, &Error)) -> Result<()> {
        let mut files = self.files.lock();
        files.insert(file);
        too_many(files.len(), self.most, Error::new(error.kind(), format!("{name}: {error}")))
    }
}

/// Fails with `error`, that of the last of `n` failed files, if at most `most` may.
pub(super) fn too_many(n: usize, most: Option<usize>, error: Error) -> Result<()> {
    match most {
        Some(0) if n > 0 => Err(error.with_hint(Remedy::SkipFailures)),
        Some(most) if n > most => {
            let message = format!("{} failed, and at most {most} may; the last: {error}", count(n as u64, "file"));
            Err(Error::new(error.kind(), message).with_hint("allow more, or look at the files"))
        }
        _ => Ok(()),
    }
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

    /// Returns whether the work ends early: part of it failed, or the caller stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        self.attempt(|| self.work.counters.check_stop());
        self.stop.load(Relaxed)
    }

    /// Returns the next items for a thread; empty when all are taken or the work was stopped.
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
        let Work { plan, counters, failed, .. } = self.work;
        let planned = &plan.rows[row as usize];
        let name = plan.input_of(planned).name();
        failed.add(plan.file(planned).index, (&name, error))?;
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

/// Returns the device for one of many threads: a CPU with one thread, or the same GPU.
pub(super) fn for_one_thread(device: &Device) -> Device {
    match device {
        Device::Cpu(cpu) => Device::Cpu(Cpu { threads: 1, ..*cpu }),
        Device::Cuda(_) => device.clone(),
    }
}
