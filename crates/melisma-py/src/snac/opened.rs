//! A model on a device, and its engines.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use melisma::lock::Mutex;
use melisma::snac::{EncodeEngine, Engine, EngineOptions, Model};
use melisma::{Device, Error, ErrorKind, Result};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::error::raise;
use crate::exec_context::{ExecContext, ExecOptions};
use crate::signal;

/// A model and where it runs.
pub struct Codec {
    pub model: Arc<Model>,
    pub exec: ExecContext,
}

impl Codec {
    pub fn open(py: Python<'_>, source: impl AsRef<Path>, options: ExecOptions<'_>) -> PyResult<Self> {
        let exec = ExecContext::open(py, options)?;
        let (source, context) = (source.as_ref().to_owned(), exec.context.clone());
        let open = move |_: &_| Model::open_in(&context, &source).map_err(explained);
        Ok(Self { model: Arc::new(signal::alone(py, open)?), exec })
    }

    /// Warns with `said` if this is the built-in model, at the line that is `stacklevel` calls up.
    pub fn warn_of_builtin(&self, py: Python<'_>, said: &CStr, stacklevel: i32) -> PyResult<()> {
        match self.model.is_builtin() {
            true => PyErr::warn(py, &py.get_type::<PyUserWarning>(), said, stacklevel),
            false => Ok(()),
        }
    }
}

fn explained(error: Error) -> Error {
    if !error.remedies().is_empty() {
        return error;
    }
    error
        .with_hint("a model is a folder with config.json and model.safetensors or pytorch_model.bin, or builtin:mini24")
}

/// A codec whose engines are made when they are first used.
pub(super) struct Opened {
    pub(super) codec: Codec,
    decoder: Slot<Engine>,
    encoder: Slot<EncodeEngine>,
}

impl Opened {
    pub(super) fn new(codec: Codec) -> Self {
        Self { codec, decoder: Slot::default(), encoder: Slot::default() }
    }

    /// Calls `work` with the engine that decodes, or `None` for a model that only the reference decodes. Call it
    /// detached.
    pub(super) fn with_decoder<R>(&self, work: impl FnOnce(Option<&mut Engine>) -> PyResult<R>) -> PyResult<R> {
        let Codec { model, exec } = &self.codec;
        self.decoder.with(
            exec,
            || Engine::new(model, exec.context.queue(), exec.context.budget(), EngineOptions::new(1)),
            work,
        )
    }

    /// Works like [`Opened::with_decoder`], with the engine that encodes.
    pub(super) fn with_encoder<R>(&self, work: impl FnOnce(Option<&mut EncodeEngine>) -> PyResult<R>) -> PyResult<R> {
        let Codec { model, exec } = &self.codec;
        self.encoder.with(
            exec,
            || EncodeEngine::new(model, exec.context.queue(), exec.context.budget(), EngineOptions::new(1)),
            work,
        )
    }
}

/// An engine that is made when it is first used.
struct Slot<E>(Mutex<Option<Option<E>>>);

impl<E> Default for Slot<E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<E> Slot<E> {
    /// Passes `None` as the engine where it has no kernels for the model on the CPU, which the reference then runs.
    fn with<R>(
        &self,
        exec: &ExecContext,
        make: impl FnOnce() -> Result<E>,
        work: impl FnOnce(Option<&mut E>) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut slot = self.0.lock();
        let engine = match slot.take() {
            Some(engine) => engine,
            None => match make() {
                Ok(engine) => Some(engine),
                Err(error)
                    if error.kind() == ErrorKind::Unsupported && matches!(exec.context.device(), Device::Cpu(_)) =>
                {
                    None
                }
                Err(error) => return Err(raise(error)),
            },
        };
        work(slot.insert(engine).as_mut())
    }
}
