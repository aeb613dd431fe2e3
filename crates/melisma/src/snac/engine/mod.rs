//! The codec on a device, many streams in one batch.

mod decode;
mod options;
mod ring;

pub use decode::{Engine, Samples, StreamId};
pub use options::EngineOptions;
pub use ring::Ticket;
