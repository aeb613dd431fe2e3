//! Rows of spectrograms: one per segment of a file.

mod clock;
mod job;
pub(super) mod layout;
mod options;
#[cfg(feature = "bench")]
mod rehearsal;
mod slot;
mod tuning;
mod worker;

pub(super) use job::Job;
pub use options::{Options, Tail};
#[cfg(feature = "bench")]
pub use rehearsal::{Rehearsal, rehearse};
