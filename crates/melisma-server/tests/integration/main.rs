//! The server, by its clients.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the test's own message")]

mod client;
mod decode;
mod encode;
mod fault;
mod gpu;
mod guard;
mod hostile;
mod key;
mod log;
mod mel;
mod queue;
mod refusal;
mod speakers;
mod speech;
mod stand_in;
mod synth;
