//! `StreamEncoder`: samples to codes while they come.

use melisma::lock::Mutex;
use melisma::snac::{Codes, EncodeEngine, Recorder, StreamId};
use melisma::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};

use super::codec::PyCodec;
use super::codes::levels;
use super::opened::Opened;
use crate::error::raise;
use crate::local::Local;

/// One stream of an encoder.
#[pyclass(name = "StreamEncoder", module = "melisma.snac", frozen, subclass)]
pub struct PyStreamEncoder {
    encoder: Py<PyCodec>,
    /// `None` after the end.
    open: Local<Mutex<Option<Path>>>,
}

enum Path {
    Engine(Box<EncodeEngine>, StreamId),
    Reference(Box<Recorder>),
}

impl Path {
    fn push(&mut self, opened: &Opened, samples: &[f32]) -> PyResult<Codes> {
        match self {
            Self::Engine(engine, stream) => opened.pieces(samples, |piece| engine.push(*stream, piece)),
            Self::Reference(recorder) => opened.pieces(samples, |piece| recorder.push(piece)),
        }
    }

    fn finish(self) -> Result<Codes> {
        match self {
            Self::Engine(mut engine, stream) => engine.finish(stream),
            Self::Reference(recorder) => recorder.finish(),
        }
    }
}

#[pymethods]
impl PyStreamEncoder {
    /// Starts a stream of `encoder`.
    #[new]
    fn new(py: Python<'_>, encoder: Py<PyCodec>) -> PyResult<Self> {
        let path = {
            let opened = encoder.get().opened.get()?;
            let exec = &opened.codec.exec;
            py.detach(|| {
                opened.with_encoder(|engine| {
                    let Some(engine) = engine else {
                        return Ok(Path::Reference(Box::new(opened.recorder().map_err(raise)?)));
                    };
                    let mut engine = engine.sibling(exec.context.queue(), exec.context.budget(), 1).map_err(raise)?;
                    let stream = engine.open().map_err(raise)?;
                    Ok(Path::Engine(Box::new(engine), stream))
                })
            })?
        };
        Ok(Self { encoder, open: Local::new(Mutex::new(Some(path))) })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.encoder)
    }

    /// Returns the encoder that this is a stream of.
    #[getter]
    fn encoder(&self, py: Python<'_>) -> Py<PyCodec> {
        self.encoder.clone_ref(py)
    }

    /// Takes samples of the model's rate, gives the codes that became final.
    #[pyo3(name = "_push")]
    fn push<'py>(&self, py: Python<'py>, samples: PyReadonlyArray1<'py, f32>) -> PyResult<Bound<'py, PyList>> {
        let (open, samples, opened) = (self.open.get()?, samples.as_slice()?, self.encoder.get().opened.get()?);
        let codes = py.detach(|| match open.lock().as_mut() {
            Some(path) => path.push(opened, samples),
            None => Err(raise(finished())),
        })?;
        levels(py, &codes)
    }

    /// Ends the stream.
    ///
    /// Returns:
    ///     The last codes, [n] for each level.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let open = self.open.get()?;
        let codes = py.detach(|| open.lock().take().ok_or_else(finished)?.finish());
        levels(py, &codes.map_err(raise)?)
    }
}

fn finished() -> Error {
    Error::invalid("the stream is finished").with_hint("each StreamEncoder encodes one stream; make another one")
}
