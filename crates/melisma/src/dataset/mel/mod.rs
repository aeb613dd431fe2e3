//! Rows of spectrograms: one per segment of a file.

mod clock;
mod job;
pub(super) mod layout;
#[cfg(feature = "bench")]
mod rehearsal;
mod slot;
mod tuning;
mod worker;

pub(super) use job::Job;
#[cfg(feature = "bench")]
pub use rehearsal::{Rehearsal, rehearse};
