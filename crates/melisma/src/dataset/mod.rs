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
mod columns;
mod complete;
mod counters;
mod failure;
mod feature;
#[cfg(feature = "bench")]
mod forecast;
mod guard;
mod hash;
mod identity;
mod input;
mod inputs;
#[doc(hidden)]
pub mod journal;
mod listing;
mod mel;
mod merge;
mod paths;
mod pipeline;
mod plan;
mod request;
mod row;

pub mod store;
mod technique;
mod tokens;
mod verify;
mod walk;
mod work;

pub use build::Outcome;
pub use counters::{Counters, Snapshot, Stage};
pub use failure::{Action, Failure, RowFailure};
pub use feature::Feature;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use forecast::{Forecast, Limit, Machine, Supply, Work as ForecastWork};
pub use input::Input;
pub use inputs::Inputs;
pub use mel::{Options, Tail};
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use mel::{Rehearsal, rehearse};
pub use merge::{Merge, Merged, Missing, merge};
pub use plan::{File as PlannedFile, Plan, Scan};
pub use request::Request;
pub use row::{Row, Status};
pub use store::Kind as StoreKind;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use technique::{Conversion, Streams, Techniques, Writes};
pub use tokens::{Check, LineFormat, Lines, Metadata, Origin, Repeats, Text, Texts, Tokens};
pub use verify::{Verified, verify};
pub use walk::{Names, Skipped};
