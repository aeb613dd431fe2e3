//! Checks every column of every row against its recorded hash.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::hash::{BLOCK_BYTES, Table};
use super::identity::Identity;
use super::row::Status;
use super::store::Store;
use crate::runtime::memory::{Budget, Reservation, Space};
use crate::text::count;
use crate::{Error, Kind, Remedy, Result};

/// The most damaged rows that are listed.
const MAX_NAMED: usize = 1000;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Rows of the dataset.
    pub rows: u64,
    /// Rows whose files failed.
    pub zero_filled: u64,
    /// Rows that were never computed.
    pub pending: u64,
    /// Rows with a column that differs from what was written.
    pub damaged: u64,
    /// The first of the damaged rows.
    pub first_damaged: Vec<u64>,
    /// Whether the settings and the `path`, `file_index`, `start_sample` and `valid_frames` of all
    /// rows match the attribute `plan`; `None` if there is no such attribute.
    pub plan_matches: Option<bool>,
    /// Columns without a recorded hash, in datasets of version 1.
    pub unhashed: Vec<&'static str>,
    /// Bytes that were read.
    pub bytes: u64,
}

impl Verified {
    /// Checks that the dataset is complete and undamaged.
    ///
    /// # Errors
    /// [`Kind::Check`] if a row is damaged or missing, or the rows do not match the plan.
    pub fn check(&self) -> Result<()> {
        let mut found = Vec::new();
        if self.damaged > 0 {
            let first = self.first_damaged.first().map_or_else(String::new, |row| format!(", the first is row {row}"));
            found.push(format!("{} damaged{first}", count(self.damaged, "row")));
        }
        if self.pending > 0 {
            found.push(format!("{} missing", count(self.pending, "row")));
        }
        if self.plan_matches == Some(false) {
            found.push(
                "path, file_index, start_sample, valid_frames or the settings are not those of its plan".to_owned(),
            );
        }
        if found.is_empty() {
            return Ok(());
        }
        let is_unfinished = self.damaged == 0 && self.plan_matches != Some(false);
        let remedy = if is_unfinished { Remedy::ResumeBuild } else { Remedy::StartOver };
        Err(Error::new(Kind::Check, found.join("; ")).with_hint(remedy))
    }

    fn add(&mut self, other: Self) {
        self.zero_filled += other.zero_filled;
        self.pending += other.pending;
        self.damaged += other.damaged;
        self.bytes += other.bytes;
        self.first_damaged.extend(other.first_damaged);
    }
}

/// Reads all rows of the dataset at `path` on `threads` threads, or on fewer if `budget` has no
/// room for that many.
///
/// # Errors
/// The file is not a Melisma dataset, it cannot be read, or the budget has no room for one row.
pub fn verify(path: &Path, threads: usize, budget: &Budget) -> Result<Verified> {
    let store = Store::open(path)?;
    verify_store(&store, threads, budget).map_err(|error| error.at(path.display()))
}

fn verify_store(store: &Store, threads: usize, budget: &Budget) -> Result<Verified> {
    let table = Table::new(store)?;
    let mel = store.layout.column("mel")?;
    let row_bytes = store.layout.columns[mel].row_bytes();
    let _plan = reserve_least(budget, BLOCK_BYTES, row_bytes + BLOCK_BYTES)?;
    let held = reserve(budget, threads, row_bytes + BLOCK_BYTES)?;
    let next = AtomicU64::new(0);
    let found: Mutex<(Verified, Option<Error>)> = Mutex::default();
    let look = Look { store, table: &table, mel };
    let plan = std::thread::scope(|scope| {
        for _ in &held {
            scope.spawn(|| {
                let (mut counts, mut values) = (Verified::default(), vec![0; row_bytes]);
                let outcome = look.run(&next, &mut values, &mut counts);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.0.add(counts);
                found.1 = found.1.take().or(outcome.err());
            });
        }
        plan(&look)
    });
    let (mut verified, error) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = error {
        return Err(error);
    }
    verified.rows = store.layout.n_rows;
    verified.plan_matches = store.layout.text("plan").zip(plan.ok()).map(|(recorded, found)| recorded == found);
    verified.unhashed = if table.has_hashes() { Vec::new() } else { vec!["status"] };
    verified.first_damaged.sort_unstable();
    verified.first_damaged.truncate(MAX_NAMED);
    Ok(verified)
}

/// Memory for each thread; for at least one.
fn reserve(budget: &Budget, threads: usize, bytes: usize) -> Result<Vec<Reservation>> {
    let mut held = vec![reserve_least(budget, bytes, BLOCK_BYTES)?];
    while held.len() < threads {
        match budget.reserve(Space::Host, bytes as u64) {
            Ok(more) => held.push(more),
            Err(_) => break,
        }
    }
    Ok(held)
}

/// Reserves `bytes`. On failure, the error says how much is needed in total, including the `others`
/// that are reserved separately.
fn reserve_least(budget: &Budget, bytes: usize, others: usize) -> Result<Reservation> {
    budget.reserve(Space::Host, bytes as u64).map_err(|error| {
        let least = ((bytes + others) as u64).div_ceil(1 << 20) << 20;
        Error::new(error.kind(), error.to_string()).with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
    })
}

/// Computes the plan hash from the columns.
fn plan(look: &Look<'_>) -> Result<String> {
    let mut identity = Identity::new(look.store.layout.text("config").unwrap_or_default());
    look.table.each(|entry| identity.add(entry.name, [entry.file, entry.start, entry.valid_frames.into()]))?;
    Ok(identity.finish())
}

struct Look<'a> {
    store: &'a Store,
    table: &'a Table<'a>,
    mel: usize,
}

impl Look<'_> {
    /// Takes blocks of rows until none are left.
    fn run(&self, next: &AtomicU64, values: &mut [u8], counts: &mut Verified) -> Result<()> {
        let (n_rows, step) = (self.store.layout.n_rows, self.table.rows_per_block().min(64));
        loop {
            let first = next.fetch_add(step, Relaxed);
            if first >= n_rows {
                return Ok(());
            }
            let rows = first..(first + step).min(n_rows);
            let block = self.table.read(rows.clone())?;
            for row in rows {
                let at = (row - first) as usize;
                let entry = block.entry(at);
                self.store.read(self.mel, row, values)?;
                counts.bytes += values.len() as u64;
                if entry.status == Status::Pending as u8 {
                    counts.pending += 1;
                    continue;
                }
                counts.zero_filled += u64::from(entry.status != Status::Ok as u8);
                let is_known = entry.status <= Status::Overflow as u8;
                let is_blank = entry.status == Status::Ok as u8 || values.iter().all(|&byte| byte == 0);
                let is_right =
                    entry.checksum == xxh3_64(values) && block.hash(at).is_none_or(|hash| hash == entry.hash());
                if !(is_known && is_blank && is_right) {
                    counts.damaged += 1;
                    counts.first_damaged.push(row);
                }
            }
        }
    }
}
