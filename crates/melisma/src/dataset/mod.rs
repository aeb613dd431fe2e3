//! Turns folders of audio files into training tensors: one row per segment or per file, the same
//! bytes on every run, resumable at any point.
//!
//! A [`Feature`] decides what a row holds: the spectrogram of a segment, or the tokens of a file with
//! the text that belongs to it. Everything else is common to both.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use melisma::dataset::{Inputs, Options, Request};
//! use melisma::mel::Config;
//!
//! let inputs = Inputs::find(&["clips"])?;
//! let segments = Options::new(Config::preset("whisper-80")?, Duration::from_secs(10))?;
//! let outcome = Request::new(&inputs, "train.h5", segments)?.build()?;
//! println!("{} rows of {} files", outcome.segments, outcome.files_ok);
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! [`Inputs::find`] lists the files, [`Plan::new`] reads their headers and fixes every row, and
//! [`Request::build`] fills the rows. All sizes are known before the first sample is read. The file is
//! therefore one header followed by columns at fixed offsets, and any thread writes to it without a
//! lock. A journal beside it records which rows are written.

mod build;
mod counters;
mod failure;
mod gather;
mod input;
mod mel;
mod merge;
mod plan;
mod row;
pub mod store;
#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "without the bench, techniques keep their defaults"))]
mod technique;
mod tokens;
mod work;

pub use build::{Outcome, Repaired};
pub use counters::{Counters, Snapshot, Stage};
pub use failure::{Action, Failure, RowFailure};
#[doc(hidden)]
pub use gather::{Gather, Gathered, Gathering, Source};
pub use input::{Fields, Input, Inputs, Metadata, Names, Search, Skipped, Text, Texts};
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use mel::{Rehearsal, rehearse};
pub use merge::{Merge, Merged, Missing, merge, merge_watched};
pub use plan::{
    Check, Feature, File as PlannedFile, Lengths, Options, Plan, Preparation, Request, Scan, Tail, Tokens, Trim,
    Untexted,
};
pub use row::{Row, Status};
pub use store::Kind as StoreKind;
#[doc(hidden)]
pub use store::journal;
pub use store::lines::{LineFormat, Lines, Origin, Repeats};
pub use store::verify::{Verified, verify, verify_watched};
#[cfg(any(feature = "bench", feature = "front"))]
#[doc(hidden)]
pub use technique::Techniques;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use technique::{Conversion, Streams, Writes};
