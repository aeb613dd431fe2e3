//! `Codec`: a model on a device, and its engines.
//!
//! `decoder.rs` and `encoder.rs` have the bodies of its methods and take what it opened: a Python class has one block
//! of methods.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::lock::Mutex;
use melisma::snac::{Codes, EncodeEngine, Engine, EngineOptions, MINI24, Model};
use melisma::{Device, Error, ErrorKind, Result};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

use super::codes::CodesArg;
use super::{decoder, encoder};

use crate::error::raise;
use crate::exec_context::{ExecContext, ExecOptions};
use crate::local::Shared;
use crate::signal;

/// A warning about text that the built-in model made.
const MADE: &CStr = c"these tokens are codes of builtin:mini24; a language model such as Orpheus needs those of its \
                      own codec: Encoder(model)";

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

/// A codec model on a device. Subclasses name the directions whose engines are made at once; others are made when they
/// are first used.
#[pyclass(name = "Codec", module = "melisma.snac", frozen, subclass)]
pub struct PyCodec {
    pub(super) opened: Shared<Opened>,
}

pub(super) struct Opened {
    pub(super) codec: Codec,
    decoder: Slot<Engine>,
    encoder: Slot<EncodeEngine>,
}

#[pymethods]
impl PyCodec {
    #[classattr]
    #[pyo3(name = "_directions")]
    const DIRECTIONS: (&'static str, &'static str) = ("decode", "encode");

    /// Opens `builtin:mini24`, a folder with `config.json` and weights, or a file of weights with `config.json` beside
    /// it.
    #[new]
    #[classmethod]
    #[pyo3(
        signature = (model=PathBuf::from(MINI24), *, device=None, threads=None, memory_limit=None),
        text_signature = "(model=\"builtin:mini24\", *, device=None, threads=None, memory_limit=None)"
    )]
    fn new(
        cls: &Bound<'_, PyType>,
        model: PathBuf,
        device: Option<&str>,
        threads: Option<usize>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = cls.py();
        let directions: Vec<String> = cls.getattr("_directions")?.extract()?;
        let codec = Codec::open(py, model, ExecOptions { device, threads, memory_limit })?;
        let opened = Opened { codec, decoder: Slot::default(), encoder: Slot::default() };
        py.detach(|| {
            directions.iter().try_for_each(|direction| match direction.as_str() {
                "decode" => opened.with_decoder(|_| Ok(())),
                _ => opened.with_encoder(|_| Ok(())),
            })
        })?;
        Ok(Self { opened: Shared::new(opened) })
    }

    /// Returns the number of samples per second.
    #[getter]
    fn sample_rate(&self) -> PyResult<u32> {
        Ok(self.opened.get()?.codec.model.config().sampling_rate)
    }

    /// Returns the number of samples of a frame.
    #[getter]
    fn frame_len(&self) -> PyResult<usize> {
        Ok(self.opened.get()?.codec.model.config().frame_len())
    }

    /// Returns the number of codes per frame on each level, coarsest first.
    #[getter]
    fn frame_codes(&self) -> PyResult<Vec<usize>> {
        Ok(self.opened.get()?.codec.model.config().frame_codes().collect())
    }

    /// Returns the number of codes in each codebook.
    #[getter]
    fn codebook_size(&self) -> PyResult<usize> {
        Ok(self.opened.get()?.codec.model.config().codebook_size)
    }

    /// Identifies the model: 32 hexadecimal digits of a hash over all weights.
    #[getter]
    fn model_hash(&self) -> PyResult<String> {
        Ok(self.opened.get()?.codec.model.hash().to_owned())
    }

    #[pyo3(name = "_decode")]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        clips: Vec<CodesArg<'py>>,
        noise: Option<u64>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let opened = self.opened.get()?;
        let config = opened.codec.model.config();
        let clips: Vec<Codes> = clips.iter().map(|clip| clip.codes(config)).collect::<PyResult<_>>()?;
        decoder::decode(py, opened, &clips, (&super::noise(noise), out))
    }

    #[pyo3(name = "_encode")]
    fn encode<'py>(&self, py: Python<'py>, clips: Vec<PyReadonlyArray1<'py, f32>>) -> PyResult<Bound<'py, PyList>> {
        encoder::encode(py, self.opened.get()?, &clips)
    }

    #[pyo3(name = "_text")]
    fn text(&self, py: Python<'_>, codes: CodesArg<'_>, format: &str) -> PyResult<String> {
        let opened = self.opened.get()?;
        let text = encoder::text(opened, &codes, format)?;
        opened.codec.warn_of_builtin(py, MADE, 2)?;
        Ok(text)
    }
}

impl Opened {
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
