//! The codec on a device, many streams in one batch: [`Engine`] decodes, [`EncodeEngine`] encodes.

mod batch;
mod chain;
mod core;
mod decode;
mod encode;
mod flow;
mod need;
mod options;
mod ring;
mod slots;

use melisma_kernels::{Device, Queue};

use crate::{ErrorKind, Result};

pub use decode::{Engine, Samples};
pub use encode::{EncodeEngine, Encoded, Piece};
pub use options::EngineOptions;
pub use ring::Ticket;
pub use slots::StreamId;

/// Returns the engine, or `None` where it has no kernels for a model on the CPU, which the reference then runs.
pub(super) fn unless_reference<E>(queue: &Queue, make: impl FnOnce() -> Result<E>) -> Result<Option<E>> {
    match make() {
        Ok(engine) => Ok(Some(engine)),
        Err(error) if error.kind() == ErrorKind::Unsupported && matches!(queue.device(), Device::Cpu(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
