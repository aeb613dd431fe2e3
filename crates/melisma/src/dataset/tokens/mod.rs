//! Rows of SNAC tokens: one per file, with the text that belongs to it.

mod feed;
mod feeder;
mod job;
mod lane;
pub(super) mod layout;
mod reader;
pub(super) mod round_trip;
mod worker;

pub(super) use job::Job;
