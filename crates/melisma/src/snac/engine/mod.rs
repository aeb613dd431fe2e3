//! The codec on a device, many streams in one batch: [`Engine`] decodes, [`EncodeEngine`] encodes.

mod decode;
mod encode;
mod options;
mod ring;

pub use decode::{Engine, Samples, StreamId};
pub use encode::{EncodeEngine, Encoded};
pub use options::EngineOptions;
pub use ring::Ticket;
