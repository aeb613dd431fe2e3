//! Turns folders of audio files into training tensors: one row per segment, the same bytes on every
//! run, resumable at any point.
//!
//! [`Inputs::find`] lists the files, [`Plan::new`] reads their headers and fixes every row, and
//! [`build`] fills the rows. All sizes are known before the first sample is read. The [`store`] is
//! therefore one header followed by columns at fixed offsets, and any thread writes to it without a
//! lock. The [`journal`] records which rows are written.

mod build;

mod complete;
mod counters;
mod failure;
mod guard;
mod hash;
mod identity;
mod input;
mod inputs;
pub mod journal;
mod mel;
mod merge;
mod paths;
mod pipeline;
mod plan;

mod row;

pub mod store;
mod technique;
mod verify;
mod walk;
mod work;

pub use build::{Outcome, Request, build};
pub use counters::{Counters, Snapshot, Stage};
pub use failure::{Action, Failure, RowFailure};
pub use input::Input;
pub use inputs::Inputs;
pub use mel::{Rehearsal, rehearse};
pub use merge::{Merge, Merged, Missing, merge};
pub use plan::{File as PlannedFile, Options, Plan, Tail};
pub use row::{Row, Status};
pub use store::Kind as StoreKind;
pub use technique::{Conversion, Streams, Techniques, Writes};
pub use verify::{Verified, verify};
pub use walk::{Names, Skipped};
