//! Folders of audio files to training tensors: one row per segment, the same bytes on every run, resumable at every instant.
//!
//! [`Inputs::find`] lists the files, [`Plan::new`] reads their headers and fixes every row, [`build`] fills the rows. All the
//! sizes are known before the first sample is read, so the [`store`] is one header and columns of fixed places, which
//! any thread writes without a lock. The [`journal`] says which rows are there.

mod build;
mod clock;
mod complete;
mod counters;
mod failure;
mod guard;
mod hash;
mod identity;
mod input;
mod inputs;
pub mod journal;
mod merge;
mod paths;
mod pipeline;
mod plan;
mod rehearsal;
mod row;
mod slot;
pub mod store;
mod technique;
mod verify;
mod walk;
mod work;
mod worker;

pub use build::{Outcome, Request, build};
pub use counters::{Counters, Snapshot, Stage};
pub use failure::{Action, Failure, RowFailure};
pub use input::Input;
pub use inputs::Inputs;
pub use merge::{Merge, Merged, Missing, merge};
pub use plan::{File as PlannedFile, Options, Plan, Tail};
pub use rehearsal::{Rehearsal, rehearse};
pub use row::{Row, Status};
pub use store::Kind as StoreKind;
pub use technique::{Conversion, Streams, Techniques, Writes};
pub use verify::{Verified, verify};
pub use walk::{Names, Skipped};
