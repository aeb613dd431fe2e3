//! `Encoder` and `StreamEncoder`: samples to codes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use melisma::snac::tokens::Text;
use melisma::snac::{Codes, EncodeEngine, Recorder, StreamId};
use melisma::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::codes::{Given, levels};
use super::model::{self, Codec};
use crate::error::raise;
use crate::local::{Local, Shared};
use crate::place::Choice;
use crate::signal;

/// Frames between two looks at signals.
const PIECE_FRAMES: usize = 8;

/// Samples to codes.
#[pyclass(name = "Encoder", module = "melisma.snac", frozen, subclass)]
pub struct PyEncoder {
    made: Shared<Made>,
}

struct Made {
    codec: Codec,
    /// `None` for a model that only the reference encodes.
    engine: Mutex<Option<EncodeEngine>>,
}

#[pymethods]
impl PyEncoder {
    /// Opens a model, as `Decoder` does.
    #[new]
    #[pyo3(signature = (model="builtin:mini24", *, device=None, threads=None, memory_limit=None))]
    fn new(
        py: Python<'_>,
        model: &str,
        device: Option<&str>,
        threads: Option<usize>,
        memory_limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let codec = Codec::open(py, model, Choice { device, threads, memory_limit })?;
        let place = &codec.place;
        let engine = py.detach(|| {
            let engine = EncodeEngine::new(&codec.model, &place.queue, place.budget(), 1);
            model::engine(engine, place).map_err(raise)
        })?;
        Ok(Self { made: Shared::new(Made { codec, engine: Mutex::new(engine) }) })
    }

    /// Samples per second.
    #[getter]
    fn sample_rate(&self) -> PyResult<u32> {
        Ok(self.made.get()?.codec.model.config().sampling_rate)
    }

    /// The codes of each clip, which has the model's rate.
    #[pyo3(name = "_encode")]
    fn encode<'py>(&self, py: Python<'py>, clips: Vec<PyReadonlyArray1<'py, f32>>) -> PyResult<Bound<'py, PyList>> {
        let made = self.made.get()?;
        let clips: Vec<&[f32]> = clips.iter().map(PyReadonlyArray1::as_slice).collect::<std::result::Result<_, _>>()?;
        let codes = py.detach(|| clips.iter().map(|clip| made.encode(clip)).collect::<PyResult<Vec<_>>>())?;
        let codes: Vec<_> = codes.iter().map(|codes| levels(py, codes)).collect::<PyResult<_>>()?;
        PyList::new(py, codes)
    }

    /// The text that language models write for `codes`: `orpheus`, with the model's stamp, or `ids`.
    #[pyo3(name = "_text")]
    fn text(&self, codes: Given<'_>, format: &str) -> PyResult<String> {
        let model = &self.made.get()?.codec.model;
        let codes = codes.codes(model.config())?;
        let unknown = || Error::invalid(format!("unknown token format `{format}`")).with_hint("use orpheus or ids");
        let text = match format {
            "orpheus" => Ok(Text::Orpheus),
            "ids" => Ok(Text::Ids),
            _ => Err(unknown()),
        };
        text.and_then(|text| Ok(text.start(model)? + &text.lines(&codes))).map_err(raise)
    }
}

impl Made {
    fn encode(&self, samples: &[f32]) -> PyResult<Codes> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = engine.as_mut() else {
            signal::check()?;
            return self.codec.model.encode(samples).map_err(raise);
        };
        let stream = engine.open().map_err(raise)?;
        let encoded = pieces(engine, stream, &self.codec, samples);
        // A finished stream is closed already.
        let _ = engine.close(stream);
        encoded
    }
}

fn pieces(engine: &mut EncodeEngine, stream: StreamId, codec: &Codec, samples: &[f32]) -> PyResult<Codes> {
    let mut codes = Codes::empty(codec.model.config());
    for piece in samples.chunks(PIECE_FRAMES * engine.frame_len()) {
        let found = engine.push(stream, piece).map_err(raise)?;
        codes.append(found.frames()).map_err(raise)?;
        signal::check()?;
    }
    codes.append(engine.finish(stream).map_err(raise)?.frames()).map_err(raise)?;
    Ok(codes)
}

/// One stream of an encoder.
#[pyclass(name = "StreamEncoder", module = "melisma.snac", frozen, subclass)]
pub struct PyStreamEncoder {
    encoder: Py<PyEncoder>,
    /// `None` after the end.
    open: Local<Mutex<Option<Path>>>,
}

enum Path {
    Engine(Box<EncodeEngine>, StreamId),
    Reference(Box<Recorder>),
}

#[pymethods]
impl PyStreamEncoder {
    /// A stream of `encoder` at its start.
    #[new]
    fn new(py: Python<'_>, encoder: Py<PyEncoder>) -> PyResult<Self> {
        let path = {
            let made = encoder.get().made.get()?;
            let place = &made.codec.place;
            let open = || -> Result<Path> {
                let engine = made.engine.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(engine) = engine.as_ref() else {
                    let recorder = Recorder::new(&made.codec.model, &place.queue, place.budget())?;
                    return Ok(Path::Reference(Box::new(recorder)));
                };
                let mut engine = engine.sibling(&place.queue, place.budget(), 1)?;
                let stream = engine.open()?;
                Ok(Path::Engine(Box::new(engine), stream))
            };
            py.detach(open).map_err(raise)?
        };
        Ok(Self { encoder, open: Local::new(Mutex::new(Some(path))) })
    }

    /// The encoder that this is a stream of.
    #[getter]
    fn encoder(&self, py: Python<'_>) -> Py<PyEncoder> {
        self.encoder.clone_ref(py)
    }

    /// Takes samples of the model's rate, gives the codes that became final.
    #[pyo3(name = "_push")]
    fn push<'py>(&self, py: Python<'py>, samples: PyReadonlyArray1<'py, f32>) -> PyResult<Bound<'py, PyList>> {
        let (open, samples) = (self.open.get()?, samples.as_slice()?);
        let codes = py.detach(|| match lock(open).as_mut().ok_or_else(finished)? {
            Path::Engine(engine, stream) => engine.push(*stream, samples),
            Path::Reference(recorder) => recorder.push(samples),
        });
        levels(py, &codes.map_err(raise)?)
    }

    /// Ends the stream, gives the codes that are still to come.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let open = self.open.get()?;
        let codes = py.detach(|| match lock(open).take().ok_or_else(finished)? {
            Path::Engine(mut engine, stream) => engine.finish(stream),
            Path::Reference(recorder) => recorder.finish(),
        });
        levels(py, &codes.map_err(raise)?)
    }
}

fn lock(open: &Mutex<Option<Path>>) -> MutexGuard<'_, Option<Path>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

fn finished() -> Error {
    Error::invalid("the stream is finished").with_hint("each StreamEncoder encodes one stream; make another one")
}
