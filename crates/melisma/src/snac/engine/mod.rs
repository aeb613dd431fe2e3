//! The codec on a device, many streams in one batch: [`Engine`] decodes, [`EncodeEngine`] encodes.

mod batch;
mod chain;
mod decode;
mod encode;
mod flow;
mod need;
mod options;
mod ring;
mod slots;

pub use decode::{Engine, Samples};
pub use encode::{EncodeEngine, Encoded, Piece};
pub use options::EngineOptions;
pub use ring::Ticket;
pub use slots::StreamId;
