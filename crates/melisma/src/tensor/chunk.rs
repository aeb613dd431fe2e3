//! How many rows of a large operation are processed at once.

use super::TensorOptimizer;
use crate::config::Chunking;
use crate::runtime::memory::{Available, Space};
use crate::text::size;
use crate::{Error, ErrorKind, Remedy, Result};

/// Work that needs less skips looking up the machine's free memory.
const SMALL_BYTES: u64 = 8 << 20;

impl TensorOptimizer {
    /// Returns the number of rows to process at once, if each needs `row_bytes` of working memory in
    /// `space`: all of them, as many as the policy names, or as many as fit into a quarter of the
    /// memory that the limit and the machine leave free. The rest is for the kernels' scratch
    /// memory, including widened copies.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] if not even one row fits, or if chunking is off and not all of them do.
    pub(super) fn rows(&self, space: Space, (n_rows, row_bytes): (usize, usize)) -> Result<usize> {
        let (chunking, free) =
            (self.policy().chunking, self.free(space, (n_rows as u64).saturating_mul(row_bytes as u64)));
        let parts = match chunking {
            Chunking::Off => 1,
            Chunking::Auto | Chunking::Rows(_) => 4,
        };
        let room = free / parts;
        let fitting = match room.checked_div(row_bytes as u64) {
            Some(rows) => usize::try_from(rows).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let asked = match chunking {
            Chunking::Off if fitting < n_rows => return Err(self.refused((space, free), n_rows, row_bytes as u64)),
            Chunking::Off | Chunking::Auto => n_rows,
            Chunking::Rows(rows) => usize::try_from(rows).unwrap_or(usize::MAX).min(n_rows),
        };
        match asked.min(fitting) {
            0 if n_rows > 0 => Err(self.refused((space, free), 1, (row_bytes as u64).saturating_mul(parts))),
            rows => Ok(rows.max(1)),
        }
    }

    /// Returns the bytes available in `space`, as far as that matters for work that needs `bytes`.
    fn free(&self, space: Space, bytes: u64) -> u64 {
        let limit = self.memory().budget().free(space);
        let available = match self.available {
            Some(available) => available,
            None if bytes < SMALL_BYTES => return limit,
            None => Available::detect(&self.queue().device()),
        };
        limit.min(available.free(space).unwrap_or(u64::MAX))
    }

    /// Returns the error for rows of `row_bytes` each, of which `free` bytes have no room for `n_rows`.
    fn refused(&self, (space, free): (Space, u64), n_rows: usize, row_bytes: u64) -> Error {
        let bytes = (n_rows as u64).saturating_mul(row_bytes);
        let what = match n_rows {
            1 => format!("a row with room to work in, in {} memory,", space.name()),
            n => format!("work on {n} rows at once, in {} memory,", space.name()),
        };
        let budget = self.memory().budget();
        let message = match budget.free(space) > free {
            true => format!("{what} needs {}; {} of memory is free", size::show(bytes), size::show(free)),
            false => budget.refusal(space, what, bytes),
        };
        let (error, raise) = (Error::new(ErrorKind::Memory, message), Remedy::RaiseMemoryLimit { least: None });
        match n_rows {
            0 | 1 => error.with_hint(raise),
            _ => error
                .with_hint(Remedy::set("chunk_large_tensors", "true"))
                .or_hint("use another profile than emergency")
                .or_hint(raise),
        }
    }
}
