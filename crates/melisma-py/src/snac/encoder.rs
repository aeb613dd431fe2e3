//! Samples to codes: whole clips and streams.

use melisma::lock::Mutex;
use melisma::snac::tokens::Text;
use melisma::snac::{Codes, EncodeEngine, Recorder, StreamId};
use melisma::{Error, Result};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};

use super::codec::{Opened, PyCodec};
use super::codes::{CodesArg, levels};
use crate::error::raise;
use crate::local::Local;
use crate::signal::Watch;

/// Frames that are encoded between two looks at signals.
const PIECE_FRAMES: usize = 8;

/// Returns the codes of each clip, which has the model's rate.
pub(super) fn encode<'py>(
    py: Python<'py>,
    opened: &Opened,
    clips: &[PyReadonlyArray1<'py, f32>],
) -> PyResult<Bound<'py, PyList>> {
    let clips: Vec<&[f32]> = clips.iter().map(PyReadonlyArray1::as_slice).collect::<std::result::Result<_, _>>()?;
    let codes = py.detach(|| clips.iter().map(|clip| opened.encode(clip)).collect::<PyResult<Vec<_>>>())?;
    let codes: Vec<_> = codes.iter().map(|codes| levels(py, codes)).collect::<PyResult<_>>()?;
    PyList::new(py, codes)
}

/// Returns the text that language models write for `codes`: `orpheus`, with the model's stamp, or `ids`.
pub(super) fn text(opened: &Opened, codes: &CodesArg<'_>, format: &str) -> PyResult<String> {
    let model = &opened.codec.model;
    let codes = codes.codes(model.config())?;
    let unknown = || Error::invalid(format!("unknown token format `{format}`")).with_hint("use orpheus or ids");
    let text = match format {
        "orpheus" => Ok(Text::Orpheus),
        "ids" => Ok(Text::Ids),
        _ => Err(unknown()),
    };
    text.and_then(|text| Ok(text.start(model)? + &text.lines(&codes))).map_err(raise)
}

impl Opened {
    fn encode(&self, samples: &[f32]) -> PyResult<Codes> {
        self.with_encoder(|engine| {
            let Some(engine) = engine else {
                let mut path = Path::Reference(Box::new(self.recorder().map_err(raise)?));
                let mut codes = path.push(self, samples)?;
                codes.append(path.finish().map_err(raise)?.frames()).map_err(raise)?;
                return Ok(codes);
            };
            let stream = engine.open().map_err(raise)?;
            let push = |piece: &[f32]| engine.push(stream, piece);
            let encoded = self.pieces(samples, push).and_then(|mut codes| {
                codes.append(engine.finish(stream).map_err(raise)?.frames()).map_err(raise)?;
                Ok(codes)
            });
            // A finished stream is closed already.
            let _ = engine.close(stream);
            encoded
        })
    }

    fn recorder(&self) -> Result<Recorder> {
        let exec = &self.codec.exec;
        Recorder::new(&self.codec.model, exec.context.queue(), exec.context.budget())
    }

    /// Pushes samples a few frames at a time.
    fn pieces(&self, samples: &[f32], mut push: impl FnMut(&[f32]) -> Result<Codes>) -> PyResult<Codes> {
        let config = self.codec.model.config();
        let (mut watch, mut codes) = (Watch::new(), Codes::empty(config));
        let pushed = samples.chunks(PIECE_FRAMES * config.frame_len()).try_for_each(|piece| {
            codes.append(push(piece)?.frames())?;
            watch.ask()
        });
        watch.settle(pushed).map(|()| codes)
    }
}

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
