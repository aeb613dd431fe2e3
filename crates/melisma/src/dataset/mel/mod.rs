//! Rows of spectrograms: one per segment of a file.

pub(super) mod clock;
mod rehearsal;
pub(super) mod slot;
pub(super) mod worker;

pub use rehearsal::{Rehearsal, rehearse};
