//! `StreamDecoder`: tokens to samples while they come.

use std::ffi::CStr;

use melisma::lock::Mutex;
use melisma::snac::tokens::{Format, Reader};
use melisma::snac::{Codes, DecodeOptions, Engine, Frames, Model, Player, StreamId};
use melisma::{Error, Result};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use super::codec::PyCodec;
use super::codes::CodesArg;
use super::noise as noise_of;
use crate::error::raise;
use crate::local::Local;
use crate::signal::Watch;

/// A warning about text that does not name the model that made it.
const DOUBT: &CStr = c"tokens without a model's stamp: builtin:mini24 turns those of another codec, such as Orpheus', \
                       into noise: Decoder(model)";
/// Frames between two looks at signals.
const PIECE_FRAMES: usize = 8;

/// One stream of a decoder.
#[pyclass(name = "StreamDecoder", module = "melisma.snac", frozen, subclass)]
pub struct PyStreamDecoder {
    decoder: Py<PyCodec>,
    /// Locked by detached threads only: a holder may wait for the interpreter.
    open: Local<Mutex<Open>>,
}

struct Open {
    reader: Reader,
    /// Whether tokens that are probably of another codec were warned about.
    is_warned: bool,
    /// `None` after the end.
    player: Option<Path>,
}

enum Path {
    Engine(Box<Engine>, StreamId),
    Reference(Box<Player>),
}

#[pymethods]
impl PyStreamDecoder {
    /// Starts a stream of `decoder`. `noise` is the seed of its noise, or None for none; `format`
    /// is `auto`, `orpheus` or `ids`, for text.
    #[new]
    #[pyo3(signature = (decoder, *, noise=Some(0), format="auto"))]
    fn new(py: Python<'_>, decoder: Py<PyCodec>, noise: Option<u64>, format: &str) -> PyResult<Self> {
        let open = {
            let opened = decoder.get().opened.get()?;
            let (noise, exec) = (noise_of(noise), &opened.codec.exec);
            py.detach(|| {
                let reader = parse(format).and_then(|format| Reader::new(format, opened.codec.model.config()));
                let reader = reader.map_err(raise)?;
                opened.with_decoder(|engine| {
                    let open = || -> Result<Path> {
                        let Some(engine) = engine else {
                            let options = DecodeOptions::from(noise);
                            let player =
                                Player::new(&opened.codec.model, exec.context.queue(), exec.context.budget(), options)?;
                            return Ok(Path::Reference(Box::new(player)));
                        };
                        let mut engine = engine.sibling(exec.context.queue(), exec.context.budget(), 1)?;
                        let stream = engine.open(noise)?;
                        Ok(Path::Engine(Box::new(engine), stream))
                    };
                    Ok(Open { reader, is_warned: false, player: Some(open().map_err(raise)?) })
                })
            })?
        };
        Ok(Self { decoder, open: Local::new(Mutex::new(open)) })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.decoder)
    }

    /// Returns the decoder that this is a stream of.
    #[getter]
    fn decoder(&self, py: Python<'_>) -> Py<PyCodec> {
        self.decoder.clone_ref(py)
    }

    /// Takes a piece of text, gives the samples that became final.
    #[pyo3(name = "_push_text")]
    fn push_text<'py>(&self, py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let codec = &self.decoder.get().opened.get()?.codec;
        let samples = self.step(py, |open| {
            open.alive()?;
            let codes = open.reader.push(text)?;
            open.reader.origin(&codec.model)?;
            Ok(codes)
        })?;
        let open = self.open.get()?;
        if py.detach(|| open.lock().starts_to_doubt(&codec.model)) {
            codec.warn_of_builtin(py, DOUBT, 2)?;
        }
        Ok(samples)
    }

    /// Takes whole frames, gives the samples that became final.
    #[pyo3(name = "_push_codes")]
    fn push_codes<'py>(&self, py: Python<'py>, codes: CodesArg<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let codes = codes.codes(self.decoder.get().opened.get()?.codec.model.config())?;
        self.step(py, |open| open.alive().map(|_| codes))
    }

    /// Returns the newest samples, as they would be if the stream ended here; only before any others.
    ///
    /// Returns:
    ///     float32 [samples].
    fn peek<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let open = self.open.get()?;
        let samples = py.detach(|| match open.lock().alive()? {
            Path::Engine(engine, stream) => engine.peek(*stream),
            Path::Reference(player) => player.peek(),
        });
        Ok(PyArray1::from_vec(py, samples.map_err(raise)?))
    }

    /// Ends the stream.
    ///
    /// Returns:
    ///     The last samples, float32 [samples].
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let (open, codec) = (self.open.get()?, &self.decoder.get().opened.get()?.codec);
        let samples = py.detach(|| -> PyResult<Vec<f32>> {
            let mut open = open.lock();
            open.alive().map_err(raise)?;
            let last = open.reader.finish().map_err(raise)?;
            open.reader.origin(&codec.model).map_err(raise)?;
            let mut samples = open.decode(last.frames())?;
            samples.extend(match open.player.take() {
                Some(Path::Engine(mut engine, stream)) => engine.finish(stream).map_err(raise)?,
                Some(Path::Reference(player)) => player.finish().map_err(raise)?,
                None => Vec::new(),
            });
            Ok(samples)
        })?;
        Ok(PyArray1::from_vec(py, samples))
    }

    /// Returns whether `finish` was called.
    #[getter]
    fn is_finished(&self, py: Python<'_>) -> PyResult<bool> {
        let open = self.open.get()?;
        Ok(py.detach(|| open.lock().player.is_none()))
    }

    /// Returns the account of the tokens in text: accepted, rejected, resyncs, frames,
    /// concealed_frames, dropped_frames.
    #[getter]
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open.get()?;
        let ledger = py.detach(|| open.lock().reader.ledger());
        let account = PyDict::new(py);
        account.set_item("accepted", ledger.accepted)?;
        account.set_item("rejected", ledger.rejected)?;
        account.set_item("resyncs", ledger.resyncs)?;
        account.set_item("frames", ledger.frames)?;
        account.set_item("concealed_frames", ledger.concealed_frames)?;
        account.set_item("dropped_frames", ledger.dropped_frames)?;
        Ok(account)
    }
}

impl PyStreamDecoder {
    fn step<'py>(
        &self,
        py: Python<'py>,
        frames: impl FnOnce(&mut Open) -> Result<Codes> + Send,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let open = self.open.get()?;
        let samples = py.detach(|| {
            let mut open = open.lock();
            let codes = frames(&mut open).map_err(raise)?;
            open.decode(codes.frames())
        })?;
        Ok(PyArray1::from_vec(py, samples))
    }
}

impl Open {
    fn alive(&mut self) -> Result<&mut Path> {
        let finished = || {
            Error::invalid("the stream is finished")
                .with_hint("each StreamDecoder decodes one stream; make another one")
        };
        self.player.as_mut().ok_or_else(finished)
    }

    /// Returns true once, after the first tokens that are probably of another codec.
    fn starts_to_doubt(&mut self, model: &Model) -> bool {
        let was_warned = self.is_warned;
        self.is_warned |= self.reader.is_doubtful(model);
        self.is_warned && !was_warned
    }

    fn decode(&mut self, frames: Frames<'_>) -> PyResult<Vec<f32>> {
        let (mut watch, mut samples) = (Watch::new(), Vec::new());
        for piece in frames.chunks(PIECE_FRAMES) {
            samples.extend(match self.alive().map_err(raise)? {
                Path::Engine(engine, stream) => engine.push(*stream, piece).map_err(raise)?,
                Path::Reference(player) => player.push(piece).map_err(raise)?,
            });
            watch.check()?;
        }
        Ok(samples)
    }
}

fn parse(format: &str) -> Result<Format> {
    let known = Format::from_name(format).filter(|format| *format != Format::Codes);
    known
        .ok_or_else(|| Error::invalid(format!("unknown token format `{format}`")).with_hint("use auto, orpheus or ids"))
}
