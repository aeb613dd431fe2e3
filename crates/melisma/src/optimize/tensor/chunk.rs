//! How many rows of a large operation are worked on at a time.

use crate::runtime::memory::{Budget, Space};
use crate::runtime::{Chunking, size};
use crate::{Error, Kind, Result};

/// Rows that need `row_bytes` each of working memory in `space`: all of them, those that the policy names, or those
/// that fit into a quarter of what is free; the rest is for the kernels' own scratch, widened copies among it.
///
/// # Errors
/// [`Kind::Memory`] when not even one row fits, or chunking is off and not all of them do.
pub fn rows(chunking: Chunking, budget: &Budget, space: Space, (n_rows, row_bytes): (usize, usize)) -> Result<usize> {
    let room = match chunking {
        Chunking::Off => budget.free(space),
        Chunking::Auto | Chunking::Rows(_) => budget.free(space) / 4,
    };
    let fitting = match room.checked_div(row_bytes as u64) {
        Some(rows) => usize::try_from(rows).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let asked = match chunking {
        Chunking::Off if fitting < n_rows => return Err(refused(budget, space, n_rows, row_bytes)),
        Chunking::Off | Chunking::Auto => n_rows,
        Chunking::Rows(rows) => usize::try_from(rows).unwrap_or(usize::MAX).min(n_rows),
    };
    match asked.min(fitting) {
        0 if n_rows > 0 => Err(refused(budget, space, 1, row_bytes)),
        rows => Ok(rows.max(1)),
    }
}

fn refused(budget: &Budget, space: Space, n_rows: usize, row_bytes: usize) -> Error {
    let needed = size::show((n_rows as u64).saturating_mul(row_bytes as u64));
    let message = format!(
        "{} memory: {n_rows} rows need {needed} to work in, {} are free",
        space.name(),
        size::show(budget.free(space))
    );
    let hint = if n_rows > 1 {
        "set chunk_large_tensors: true or another profile than emergency, or raise --memory-limit"
    } else {
        "raise --memory-limit"
    };
    Error::new(Kind::Memory, message).with_hint(hint)
}
