//! The room `runtime`: what the machine's memory can do, the ceiling of everything that only moves bytes.

use std::hint::black_box;

use super::{Place, Plan, Row, measure};
use crate::Result;
use crate::runtime::memory::Space;

/// Larger than any cache, so that the memory is measured.
const BYTES: usize = 256 << 20;

pub(super) fn rows(place: Place<'_>) -> Result<Vec<Row>> {
    let _counted = place.memory.reserve(Space::Host, 2 * BYTES as u64)?;
    let from = vec![1u8; BYTES];
    let mut to = vec![0u8; BYTES];
    let copied = measure(Plan::default(), || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });
    // A copy reads and writes every byte.
    Ok(vec![copied.rate("runtime/copy", "GB/s", 2.0 * BYTES as f64 / 1e9)])
}
