//! The pipeline: threads read files into slots, transform them, and write the rows in place.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::failure::RowFailure;
use super::mel::clock::Clock;
use super::mel::worker::Worker;
use super::plan::Plan;
use super::store::HASH_COLUMN;
use super::technique::{Streams, Techniques};
use super::work::{Columns, Item, Shared, Work, for_one_thread, one_queue, shape};
use crate::mel::Transform;
use crate::runtime::device::Device;
use crate::{Error, Kind, Remedy, Result};

/// Rows of a file that a thread takes at once, if other threads can start in the middle of the
/// file.
const ROWS_PER_ITEM: u32 = 64;
/// The most consecutive items that a thread takes at once, so that rows are written in long runs.
const MOST_ITEMS: usize = 32;

/// How a run went.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The files that failed.
    pub(super) failures: Vec<RowFailure>,
    /// Rows per second over the middle 80 % of the run.
    pub(super) steady_rows_per_second: f64,
    /// Threads that worked.
    pub(super) threads: usize,
}

/// Computes every row that `done` does not mark.
pub(super) fn run(work: &Work<'_>, done: &[bool]) -> Result<Made> {
    let layout = &work.store.layout;
    let columns = Columns {
        mel: layout.column("mel")?,
        status: layout.column("status")?,
        checksum: layout.column("checksum")?,
        row_hash: layout.column(HASH_COLUMN)?,
    };
    let items = items(work.plan, done);
    let n_threads = work.tuning.threads.clamp(1, items.len().max(1));
    let n_rows = items.iter().map(|item| u64::from(item.n_rows)).sum();
    let clock = match work.device {
        Device::Cpu(_) => None,
        Device::Cuda(_) => Some(Clock::start(&work.device.queue(work.budget)?)?),
    };
    let shared = Shared {
        work,
        columns,
        clock,
        queues: (work.techniques.streams == Streams::One).then(|| one_queue(work.device, work.budget)).transpose()?,
        stop: AtomicBool::new(false),
        failures: Mutex::default(),
        synced: Mutex::new(Instant::now()),
        launches: AtomicU64::new(0),
        n_at_once: (items.len() / (16 * n_threads)).clamp(1, MOST_ITEMS),
        items,
        next: AtomicUsize::new(0),
        failed: Mutex::default(),
        n_rows,
        done: AtomicU64::new(0),
        marks: Default::default(),
    };
    // Both take a while, so they run in parallel.
    let (workers, reserved) = std::thread::scope(|scope| {
        let reserving = scope.spawn(|| work.store.reserve());
        (workers(&shared, n_threads), reserving.join().unwrap_or(Ok(())))
    });
    reserved?;
    let workers = workers?;
    let threads = workers.len();
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                if let Err(error) = worker.run() {
                    shared.stop.store(true, Relaxed);
                    shared.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    if let Some(clock) = shared.clock {
        clock.tell(work.counters);
    }
    let steady_rows_per_second = match shared.marks.map(OnceLock::into_inner) {
        [Some(start), Some(end)] => 0.8 * n_rows as f64 / end.duration_since(start).as_secs_f64().max(1e-9),
        _ => 0.0,
    };
    match shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            let failures = shared.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(Made { failures, steady_rows_per_second, threads })
        }
    }
}

/// Threads with all their memory, allocated before the work begins. If memory is short, slots
/// become smaller, then threads fewer.
fn workers<'a>(shared: &'a Shared<'a>, n_threads: usize) -> Result<Vec<Worker<'a>>> {
    let mut n_rows = shared.work.tuning.n_rows;
    loop {
        let mut workers = Vec::new();
        let refused = loop {
            if workers.len() == n_threads {
                return Ok(workers);
            }
            match Worker::new(shared, n_rows) {
                Ok(worker) => workers.push(worker),
                Err(error) if error.kind() == Kind::Memory => break error,
                Err(error) => return Err(error),
            }
        };
        match (n_rows, workers.is_empty()) {
            (1, true) => {
                let Work { plan, transform, device, techniques, .. } = shared.work;
                return Err(with_least(refused, plan, transform, (device, techniques)));
            }
            (1, false) => return Ok(workers),
            _ => n_rows = n_rows.div_ceil(2),
        }
    }
}

/// Adds to a memory error how much a build needs at least: the plan, slots of one row for one
/// thread, and the transform's scratch.
pub(super) fn with_least(
    refused: Error,
    plan: &Plan,
    transform: &Transform,
    (device, techniques): (&Device, &Techniques),
) -> Error {
    let n_slots = if matches!(device, Device::Cpu(_)) { 1 } else { techniques.buffers_in_flight.max(1) };
    let slots = shape(&plan.options, 1).bytes().iter().sum::<usize>() * n_slots;
    let scratch = transform.scratch_bytes(&for_one_thread(device), plan.options.n_frames());
    let least = (plan.bytes() + slots as u64 + scratch).div_ceil(1 << 20) << 20;
    Error::new(refused.kind(), refused.to_string())
        .with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
        .or_hint("choose shorter segments")
}

/// Ranges of rows that are not done, split at files, and within a file if it can be read from the
/// middle.
fn items(plan: &Plan, done: &[bool]) -> Vec<Item> {
    let mut items = Vec::new();
    for file in &plan.files {
        let mut row = file.first_row;
        let end = file.first_row + file.n_rows;
        while row < end {
            if done[row as usize] {
                row += 1;
                continue;
            }
            let most = if file.can_seek { ROWS_PER_ITEM } else { u32::MAX };
            let n_rows = (row..end).take_while(|&row| !done[row as usize]).take(most as usize).count() as u32;
            items.push(Item { first_row: row, n_rows });
            row += n_rows;
        }
    }
    items
}
