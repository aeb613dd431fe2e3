//! The pipeline: threads read files, compute their rows, and write them in place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Instant;

use melisma_kernels::lock::Mutex;

use crate::dataset::failure::RowFailure;
use crate::dataset::plan::{Feature, Plan, Request};
use crate::dataset::store::HASH_COLUMN;
use crate::dataset::technique::Writes;
use crate::dataset::work::{Columns, Item, Shared, Work};
use crate::dataset::{mel, tokens};
use crate::runtime::memory::Space;
use crate::{Error, Remedy, Result};

/// Rows of a file that a thread takes at once, if other threads can start in the middle of the
/// file.
const ROWS_PER_ITEM: u32 = 64;
/// The most consecutive items that a thread takes at once, so that rows are written in long runs.
const MOST_ITEMS: usize = 32;
/// Above this many threads, direct writes block each other.
const MANY_WRITERS: usize = 4;

/// How a run went.
#[derive(Debug, Default)]
pub(super) struct RunStats {
    /// The files that failed.
    pub(super) failures: Vec<RowFailure>,
    /// Rows per second over the middle 80 % of the run.
    pub(super) steady_rows_per_second: f64,
    /// Threads that worked.
    pub(super) threads: usize,
}

/// What computes the rows of a feature on a device, before it is known how many there are.
pub(super) enum Job {
    Mel(Box<mel::Job>),
    Tokens(tokens::Job),
}

impl Job {
    pub(super) fn new(request: &Request<'_>) -> Result<Self> {
        match &request.feature {
            Feature::Mel(options) => mel::Job::new(options, request).map(|job| Self::Mel(Box::new(job))),
            Feature::Tokens(tokens) => tokens::Job::new(tokens, request).map(Self::Tokens),
        }
    }

    /// Returns the most threads that work.
    fn threads(&self) -> usize {
        match self {
            Self::Mel(job) => job.threads(),
            Self::Tokens(job) => job.threads,
        }
    }

    /// Returns whether rows are written into a map of the output.
    pub(super) fn maps_output(&self, request: &Request<'_>) -> bool {
        let is_limited = request.context.budget().limit(Space::Host).is_some();
        let writes = request.techniques.writes;
        matches!(self, Self::Mel(_))
            && (writes == Writes::Mapped
                // The pages of a map count towards the memory of the process.
                || writes == Writes::Auto && self.threads() > MANY_WRITERS && !is_limited)
    }

    /// Adds to a memory error how much a build needs at least: the plan, and what one thread
    /// computes one row with.
    pub(super) fn with_least(&self, refused: Error, plan: &Plan) -> Error {
        let (least, advice) = match self {
            Self::Mel(job) => (job.least_bytes(), Some("choose shorter segments")),
            Self::Tokens(job) => (job.least_bytes(), None),
        };
        let least = (plan.bytes() + least).div_ceil(1 << 20) << 20;
        let error =
            Error::new(refused.kind(), refused.to_string()).with_hint(Remedy::RaiseMemoryLimit { least: Some(least) });
        advice.into_iter().fold(error, |error, advice| error.or_hint(advice))
    }
}

/// Computes every row that `done` does not mark.
pub(super) fn run(work: &Work<'_>, job: &Job, done: &[bool]) -> Result<RunStats> {
    let layout = &work.store.layout;
    let columns = Columns {
        values: layout.column(if layout.is_tokens() { "codes" } else { "mel" })?,
        status: layout.column("status")?,
        checksum: layout.column("checksum")?,
        row_hash: layout.column(HASH_COLUMN)?,
    };
    let items = items(work.plan, done);
    let n_threads = job.threads().clamp(1, items.len().max(1));
    let n_rows = items.iter().map(|item| u64::from(item.n_rows)).sum();
    let shared = Shared {
        work,
        columns,
        n_threads,
        stop: AtomicBool::new(false),
        failures: Mutex::default(),
        synced: Mutex::new(Instant::now()),
        n_at_once: (items.len() / (16 * n_threads)).clamp(1, MOST_ITEMS),
        items,
        next: AtomicUsize::new(0),
        failed: Mutex::default(),
        n_rows,
        done: AtomicU64::new(0),
        marks: Default::default(),
    };
    let ran = match job {
        Job::Mel(mel) => mel.run(&shared),
        Job::Tokens(tokens) => tokens.run(&shared),
    };
    let threads = ran.map_err(|error| match error.kind() {
        crate::ErrorKind::Memory => job.with_least(error, work.plan),
        _ => error,
    })?;
    let steady_rows_per_second = match shared.marks.map(OnceLock::into_inner) {
        [Some(start), Some(end)] => 0.8 * n_rows as f64 / end.duration_since(start).as_secs_f64().max(1e-9),
        _ => 0.0,
    };
    match shared.failed.into_inner() {
        Some(error) => Err(error),
        None => {
            let failures = shared.failures.into_inner();
            Ok(RunStats { failures, steady_rows_per_second, threads })
        }
    }
}

/// Returns the ranges of rows that are not done, split at files, and within a file if it can be
/// read from the middle.
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
