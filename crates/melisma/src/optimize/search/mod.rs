//! Finds the best engine for a model on this device. It measures candidates and stores the fastest
//! that is accurate enough and fits into memory in the [`cache`](super::cache), with the
//! measurements. [`Search::choose`] finds it there for a run.
//!
//! Each candidate runs in its own process ([`Worker`]): a crash or exhausted memory costs only one
//! row of the table, and peak memory is measured per candidate.

mod accuracy;
mod advice;
mod bound;
mod candidate;
mod choose;
mod chunk;
mod context;
mod direct;
mod engines;
mod hard_limit;
mod inputs;
mod key;
mod least_memory;
mod measure;
mod message;
mod operators;
mod optimize;
mod pick;
mod pieces;
mod prepare;
mod process;
mod reference;
mod report;
mod request;
mod requirement;
mod select;
mod selection;
mod serve;
mod settings;
mod spec;
#[cfg(test)]
mod tests;
mod work;
mod worker;

pub use accuracy::{Accuracy, compare};
pub use candidate::{Candidate, Wanted};
pub use choose::{Cached, Chosen, Subject};
pub use chunk::Chunk;
pub use context::Search;
use direct::Direct;
use engines::{available, open};
pub use measure::{Latency, Measured, Outcome as Measurement, Refusal};
pub use message::Message;
pub use optimize::Outcome;
use process::ProcessEngine;
pub use report::{InputShape, Report};
pub use request::{Content, Given, Request};
pub use requirement::{Requested, Requirements};
#[doc(hidden)]
pub use serve::serve;
use work::work;
#[cfg(any(feature = "bench", feature = "front"))]
#[doc(hidden)]
pub use worker::Program;
pub use worker::Worker;

#[cfg(feature = "bench")]
#[doc(hidden)]
pub use {
    inputs::Sets,
    request::SEED,
    settings::EngineSettings,
    spec::{Done, Spec, Task},
};
#[cfg(not(feature = "bench"))]
use {
    inputs::Sets,
    settings::EngineSettings,
    spec::{Done, Spec, Task},
};
