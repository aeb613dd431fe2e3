//! Every row against its checksum.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::row::Status;
use super::store::Store;
use crate::{Error, Kind, Result};

/// Rows that are named at most.
const MAX_NAMED: usize = 1000;

/// What a look at every row found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Rows of the dataset.
    pub rows: u64,
    /// Rows whose files failed.
    pub zero_filled: u64,
    /// Rows that were never made.
    pub pending: u64,
    /// Rows whose bytes are not what was written.
    pub damaged: u64,
    /// The first of those.
    pub first_damaged: Vec<u64>,
    /// Bytes that were read.
    pub bytes: u64,
}

impl Verified {
    /// Whether all is as it was written.
    ///
    /// # Errors
    /// [`Kind::Check`] when a row is damaged or missing.
    pub fn check(&self) -> Result<()> {
        if self.damaged == 0 && self.pending == 0 {
            return Ok(());
        }
        let first = self.first_damaged.first().map_or_else(String::new, |row| format!(", the first is row {row}"));
        let message = format!("{} rows are damaged and {} missing{first}", self.damaged, self.pending);
        Err(Error::new(Kind::Check, message).with_hint("build the dataset again with -f"))
    }
}

/// Reads all rows of the dataset at `path` on `threads` threads.
///
/// # Errors
/// It is no dataset of ours, or cannot be read.
pub fn verify(path: &Path, threads: usize) -> Result<Verified> {
    let store = Store::open(path)?;
    let layout = &store.layout;
    let [mel, status, checksum] = [layout.column("mel")?, layout.column("status")?, layout.column("checksum")?];
    let next = AtomicU64::new(0);
    let found: Mutex<(Verified, Option<Error>)> = Mutex::default();
    let row_bytes = layout.columns[mel].row_bytes();
    let look = |row: u64, values: &mut [u8], counts: &mut Verified| -> Result<()> {
        let (mut state, mut sum) = ([0; 1], [0; 8]);
        store.read(status, row, &mut state)?;
        store.read(checksum, row, &mut sum)?;
        store.read(mel, row, values)?;
        counts.bytes += values.len() as u64;
        counts.pending += u64::from(state[0] == Status::Pending as u8);
        counts.zero_filled += u64::from(!matches!(state[0], 0 | 255));
        if state[0] != Status::Pending as u8 && u64::from_le_bytes(sum) != xxh3_64(values) {
            counts.damaged += 1;
            counts.first_damaged.push(row);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let (mut counts, mut values) = (Verified::default(), vec![0; row_bytes]);
                let mut outcome = Ok(());
                while outcome.is_ok() {
                    let row = next.fetch_add(1, Relaxed);
                    if row >= layout.n_rows {
                        break;
                    }
                    outcome = look(row, &mut values, &mut counts);
                }
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.0.add(counts);
                found.1 = found.1.take().or(outcome.err());
            });
        }
    });
    let (mut verified, error) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = error {
        return Err(error);
    }
    verified.rows = layout.n_rows;
    verified.first_damaged.sort_unstable();
    verified.first_damaged.truncate(MAX_NAMED);
    Ok(verified)
}

impl Verified {
    fn add(&mut self, other: Self) {
        self.zero_filled += other.zero_filled;
        self.pending += other.pending;
        self.damaged += other.damaged;
        self.bytes += other.bytes;
        self.first_damaged.extend(other.first_damaged);
    }
}
