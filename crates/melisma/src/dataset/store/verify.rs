//! Checks every column of every row against its recorded hash.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use melisma_kernels::lock::Mutex;
use xxhash_rust::xxh3::Xxh3Default;

use super::Store;
use super::hash::{BLOCK_BYTES, Found, Table};
use super::identity::Identity;
use super::lines::origin::Origin;
use super::lines::{self, Lines};
use super::paths::origin_of;
use crate::dataset::counters::Counters;
use crate::dataset::row::Status;
use crate::runtime::memory::{Budget, Reservation, Space};
use crate::runtime::thread;
use crate::text::count;
use crate::{Error, ErrorKind, Remedy, Result};

/// The most damaged rows that are listed.
const MAX_NAMED: usize = 1000;

/// The most damaged rows that an error names.
const MAX_SHOWN: usize = 10;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// The names of their audio files, as they are read: a name may itself be damaged.
    pub first_files: Vec<String>,
    /// Whether the settings and the columns that the plan determines match the attribute `plan`;
    /// `None` if there is no such attribute.
    pub plan_matches: Option<bool>,
    /// The columns that the plan determines.
    pub planned: &'static str,
    /// Columns without a recorded hash, in datasets of version 1.
    pub unhashed: Vec<&'static str>,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is wrong with the first damaged line of a file of lines.
    pub fault: Option<String>,
    /// The file that would tell which lines were written, if it is not there: each line was checked by itself.
    pub missing_origin: Option<PathBuf>,
}

impl Verified {
    /// Checks that the dataset is complete and undamaged.
    ///
    /// # Errors
    /// [`ErrorKind::Check`] if a row is damaged or missing, or the rows do not match the plan.
    pub fn check(&self) -> Result<()> {
        let mut found = Vec::new();
        if self.damaged > 0 {
            let named = self.first_damaged.first().zip(self.first_files.first());
            let of = |file: &String| if file.is_empty() { String::new() } else { format!(", of {file}") };
            let first = named.map_or_else(String::new, |(row, file)| format!(", the first is row {row}{}", of(file)));
            let fault = self.fault.as_ref().map_or_else(String::new, |fault| format!(" ({fault})"));
            found.push(format!("{} damaged{first}{fault}", count(self.damaged, "row")));
            let others = self.first_damaged.iter().zip(&self.first_files).skip(1).take(MAX_SHOWN - 1);
            found.extend(others.map(|(row, file)| format!("row {row}{}", of(file))));
            if self.damaged > MAX_SHOWN as u64 {
                found.push(format!("and {} more", self.damaged - MAX_SHOWN as u64));
            }
        }
        if self.pending > 0 {
            found.push(format!("{} missing", count(self.pending, "row")));
        }
        if self.plan_matches == Some(false) {
            found.push(format!("{} or the settings are not those of its plan", self.planned));
        }
        if found.is_empty() {
            return Ok(());
        }
        let remedy = match (self.damaged, self.plan_matches) {
            (0, Some(false)) => Remedy::StartOver,
            (0, _) => Remedy::ResumeBuild,
            _ => Remedy::RepairRows,
        };
        let error = Error::new(ErrorKind::Check, found.join("; "));
        // Lines have no hash of each row, so their rows cannot be repaired.
        Err(if self.missing_origin.is_some() { error } else { error.with_hint(remedy) })
    }

    fn add(&mut self, other: Self) {
        self.zero_filled += other.zero_filled;
        self.pending += other.pending;
        self.damaged += other.damaged;
        self.bytes += other.bytes;
        self.first_damaged.extend(other.first_damaged);
        self.first_files.extend(other.first_files);
    }

    /// Lists a damaged row. Rows come in order.
    pub(super) fn damage(&mut self, row: u64, file: &[u8]) {
        self.damaged += 1;
        if self.first_damaged.len() < MAX_NAMED {
            self.first_damaged.push(row);
            self.first_files.push(String::from_utf8_lossy(file).into_owned());
        }
    }

    /// Keeps the first of the damaged rows of all threads.
    fn keep_first(&mut self) {
        let rows = std::mem::take(&mut self.first_damaged);
        let mut named: Vec<(u64, String)> = rows.into_iter().zip(std::mem::take(&mut self.first_files)).collect();
        named.sort_unstable();
        named.truncate(MAX_NAMED);
        (self.first_damaged, self.first_files) = named.into_iter().unzip();
    }
}

/// Reads all rows of the dataset at `path` on `threads` threads, or on fewer if `budget` has no
/// room for that many. A file of lines is checked as a whole; without the file that tells what was written, each line
/// is checked by itself.
///
/// ```no_run
/// let verified = melisma::dataset::verify("train.h5", 2, &melisma::Budget::limited(1 << 30))?;
/// assert!(verified.damaged == 0, "{} rows are damaged", verified.damaged);
/// # Ok::<(), melisma::Error>(())
/// ```
///
/// # Errors
/// The file is not a Melisma dataset, it cannot be read, or the budget has no room for one row.
/// [`ErrorKind::Check`] if lines have changed.
pub fn verify(path: impl AsRef<Path>, threads: usize, budget: &Budget) -> Result<Verified> {
    verify_watched(path, threads, budget, &Counters::default())
}

/// Works like [`verify`]; `counters` can stop it.
///
/// # Errors
/// As [`verify`], or it was stopped.
pub fn verify_watched(
    path: impl AsRef<Path>,
    threads: usize,
    budget: &Budget,
    counters: &Counters,
) -> Result<Verified> {
    let path = path.as_ref();
    if Lines::is_name(path) {
        if path.exists() && origin_of(path).symlink_metadata().is_err() {
            return lines::check::check(path, budget, counters);
        }
        let origin = Origin::open(path)?;
        origin.read(path, |_| counters.check_stop())?;
        return Ok(Verified { rows: origin.rows, bytes: origin.bytes, ..Verified::default() });
    }
    let store = Store::open(path)?;
    verify_store(&store, threads, budget, counters).map_err(|error| error.at(path.display()))
}

/// Works like [`verify_watched`], for a dataset that is open.
pub(in crate::dataset) fn verify_store(
    store: &Store,
    threads: usize,
    budget: &Budget,
    counters: &Counters,
) -> Result<Verified> {
    let table = Table::new(store)?;
    let values = store.layout.column(if store.layout.is_tokens() { "codes" } else { "mel" })?;
    let value_bytes = store.layout.columns[values].row_bytes();
    if value_bytes == 0 {
        return Err(Error::corrupt("its rows have 0 bytes; each needs at least one value"));
    }
    let buffer_bytes = value_bytes.clamp(1, BLOCK_BYTES);
    let _plan = reserve_least(budget, BLOCK_BYTES, buffer_bytes + BLOCK_BYTES)?;
    let held = reserve(budget, threads, buffer_bytes + BLOCK_BYTES)?;
    let next = AtomicU64::new(0);
    let found: Mutex<(Verified, Option<Error>)> = Mutex::default();
    let look = Look { store, table: &table, values, value_bytes, counters };
    let share = || {
        let (mut counts, mut values) = (Verified::default(), vec![0; buffer_bytes]);
        let outcome = look.run(&next, &mut values, &mut counts);
        let mut found = found.lock();
        found.0.add(counts);
        found.1 = found.1.take().or(outcome.err());
    };
    let plan = thread::team(held.iter().map(|_| share), || plan(&look))?;
    let (mut verified, error) = found.into_inner();
    if let Some(error) = error {
        return Err(error);
    }
    verified.rows = store.layout.n_rows;
    verified.plan_matches = store.layout.text("plan").zip(plan.ok()).map(|(recorded, found)| recorded == found);
    verified.planned = match store.layout.is_tokens() {
        true => "path, text, file_index, seconds, offsets",
        false => "path, file_index, start_sample, valid_frames",
    };
    verified.unhashed = if table.has_hashes() { Vec::new() } else { vec!["status"] };
    verified.keep_first();
    Ok(verified)
}

/// Returns all damaged rows.
pub(in crate::dataset) fn damaged(store: &Store) -> Result<Vec<u64>> {
    let table = Table::new(store)?;
    let values = store.layout.column(if store.layout.is_tokens() { "codes" } else { "mel" })?;
    let value_bytes = store.layout.columns[values].row_bytes();
    let look = Look { store, table: &table, values, value_bytes, counters: &Counters::default() };
    let (mut buffer, mut rows) = (vec![0; value_bytes.clamp(1, BLOCK_BYTES)], Vec::new());
    table.each(0..store.layout.n_rows, |found| {
        let mut counts = Verified::default();
        look.look_at(&found, &mut buffer, &mut counts)?;
        rows.extend((counts.damaged > 0).then_some(found.row));
        Ok(())
    })?;
    Ok(rows)
}

/// Reserves memory for each thread; for at least one.
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
    look.table.each(0..look.store.layout.n_rows, |found| {
        identity.add_entry(&found.entry);
        look.counters.check_stop()
    })?;
    Ok(identity.finish())
}

struct Look<'a> {
    store: &'a Store,
    table: &'a Table<'a>,
    /// The column with the values.
    values: usize,
    value_bytes: usize,
    counters: &'a Counters,
}

impl Look<'_> {
    /// Takes blocks of rows until none are left.
    fn run(&self, next: &AtomicU64, buffer: &mut [u8], counts: &mut Verified) -> Result<()> {
        let (n_rows, step) = (self.store.layout.n_rows, self.table.rows_per_block().min(64));
        loop {
            let first = next.fetch_add(step, Relaxed);
            if first >= n_rows {
                return Ok(());
            }
            self.table.each(first..(first + step).min(n_rows), |found| self.look_at(&found, buffer, counts))?;
        }
    }

    fn look_at(&self, found: &Found<'_>, buffer: &mut [u8], counts: &mut Verified) -> Result<()> {
        self.counters.check_stop()?;
        let entry = &found.entry;
        let (checksum, is_zero) = self.read(found, buffer)?;
        counts.bytes += (found.values.end - found.values.start) * self.value_bytes as u64;
        if entry.status == Status::Pending as u8 {
            counts.pending += 1;
            return Ok(());
        }
        counts.zero_filled += u64::from(entry.status != Status::Ok as u8);
        let is_known = entry.status <= Status::Overflow as u8;
        let is_blank = entry.status == Status::Ok as u8 || is_zero;
        let is_right =
            found.is_placed && entry.checksum == checksum && found.hash.is_none_or(|hash| hash == entry.hash());
        if !(is_known && is_blank && is_right) {
            counts.damage(found.row, entry.name);
        }
        Ok(())
    }

    /// Returns XXH3 of a row's values, and whether they are all zero.
    fn read(&self, found: &Found<'_>, buffer: &mut [u8]) -> Result<(u64, bool)> {
        let mut hash = Xxh3Default::new();
        let mut is_zero = true;
        let mut add = |bytes: &[u8]| {
            hash.update(bytes);
            is_zero &= bytes.iter().all(|&byte| byte == 0);
        };
        let mut at = found.values.start * self.value_bytes as u64;
        let end = found.values.end * self.value_bytes as u64;
        while at < end {
            let n = (end - at).min(buffer.len() as u64);
            let bytes = &mut buffer[..n as usize];
            self.store.read_bytes(self.values, at, bytes)?;
            add(bytes);
            at += n;
        }
        Ok((hash.digest(), is_zero))
    }
}
