//! Finds the best engine for a model on this device. It measures candidates and stores the fastest
//! that is accurate enough and fits into memory in the [`cache`](super::cache), with the
//! measurements. [`Search::choose`] finds it there for a run.
//!
//! Each candidate runs in its own process ([`Worker`]): a crash or exhausted memory costs only one
//! row of the table, and peak memory is measured per candidate.

mod answer;
mod baseline;
mod candidate;
mod choose;
mod context;
mod evidence;
mod independence;
mod key;
mod measure;
mod message;
mod objective;
mod optimize;
mod report;
mod request;
mod requirement;
mod run;
#[cfg(test)]
mod tests;

pub use answer::Comparison;
pub use baseline::Baseline;
pub use candidate::{Candidate, Chunk, Wanted};
pub use context::Search;
pub use evidence::{Evidence, InputValues, Source};
#[doc(hidden)]
pub use measure::serve;
pub use measure::{Accuracy, Latency, Measured, Outcome as Measurement, Refusal, Worker, compare};
pub use message::Message;
pub use objective::Objective;
pub use optimize::Outcome;
pub use report::{EngineOperators, InputShape, Report};
pub use request::{Content, Given, Request};
pub use requirement::{Requested, Requirements};
pub use run::{Cached, Chosen, RepeatedRun, Subject};

#[cfg(any(feature = "bench", feature = "front"))]
#[doc(hidden)]
pub use measure::Program;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub use {
    candidate::EngineSettings,
    measure::{Done, Sets, Spec, Task},
    request::SEED,
};
