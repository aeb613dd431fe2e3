//! How many rows of a large operation are worked on at a time.

use super::TensorOptimizer;
use crate::config::Chunking;
use crate::runtime::memory::{Available, Space};
use crate::text::size;
use crate::{Error, Kind, Remedy, Result};

/// For work that needs less, the machine's free memory is not looked up.
const SMALL_BYTES: u64 = 8 << 20;

impl TensorOptimizer {
    /// Rows that need `row_bytes` each of working memory in `space`: all of them, those that the policy names, or those
    /// that fit into a quarter of what the limit and the machine leave free; the rest is for the kernels' own scratch,
    /// widened copies among it.
    ///
    /// # Errors
    /// [`Kind::Memory`] when not even one row fits, or chunking is off and not all of them do.
    pub(super) fn rows(&self, space: Space, (n_rows, row_bytes): (usize, usize)) -> Result<usize> {
        let (chunking, free) =
            (self.policy().chunking, self.free(space, (n_rows as u64).saturating_mul(row_bytes as u64)));
        let room = match chunking {
            Chunking::Off => free,
            Chunking::Auto | Chunking::Rows(_) => free / 4,
        };
        let fitting = match room.checked_div(row_bytes as u64) {
            Some(rows) => usize::try_from(rows).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let asked = match chunking {
            Chunking::Off if fitting < n_rows => return Err(refused(free, space, (n_rows, row_bytes))),
            Chunking::Off | Chunking::Auto => n_rows,
            Chunking::Rows(rows) => usize::try_from(rows).unwrap_or(usize::MAX).min(n_rows),
        };
        match asked.min(fitting) {
            0 if n_rows > 0 => Err(refused(free, space, (1, row_bytes))),
            rows => Ok(rows.max(1)),
        }
    }

    /// Bytes that can be taken in `space`, as far as it matters for work that needs `bytes`.
    fn free(&self, space: Space, bytes: u64) -> u64 {
        let limit = self.memory().budget().free(space);
        let available = match self.available {
            Some(available) => available,
            None if bytes < SMALL_BYTES => return limit,
            None => Available::look(&self.queue().device()),
        };
        limit.min(available.free(space).unwrap_or(u64::MAX))
    }
}

fn refused(free: u64, space: Space, (n_rows, row_bytes): (usize, usize)) -> Error {
    let needed = size::show((n_rows as u64).saturating_mul(row_bytes as u64));
    let message =
        format!("{} memory: {n_rows} rows need {needed} to work in, {} are free", space.name(), size::show(free));
    let (error, raise) = (Error::new(Kind::Memory, message), Remedy::RaiseMemoryLimit { least: None });
    match n_rows {
        0 | 1 => error.with_hint(raise),
        _ => error
            .with_hint(Remedy::Set { key: "chunk_large_tensors", value: "true" })
            .or_hint("use another profile than emergency")
            .or_hint(raise),
    }
}
