//! `SpeechStream`: the samples of a text, while its tokens are drawn.

use std::sync::Arc;

use melisma::lock::Mutex;
use melisma::snac::tokens::Ledger;
use melisma::snac::{Codes, Model};
use melisma::speak::Speech;
use melisma::{Error, ErrorKind};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::raise;
use crate::local::Local;
use crate::signal;

/// The samples of one text, as they become final.
#[pyclass(name = "SpeechStream", module = "melisma.speak", frozen)]
pub struct PySpeechStream {
    /// Never locked while anything waits.
    open: Local<Mutex<Open>>,
    sample_rate: u32,
}

struct Open {
    state: State,
    codes: Codes,
    ledger: Ledger,
    notes: Vec<String>,
}

enum State {
    Idle(Box<Speech>),
    /// Another thread draws tokens.
    Busy,
    Ended,
}

#[pymethods]
impl PySpeechStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Draws tokens until samples are final. After an exception the stream has ended.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f32>>>> {
        let open = self.open.get()?;
        loop {
            // Outside of the match, whose arms lock it again.
            let state = std::mem::replace(&mut open.lock().state, State::Busy);
            let mut speech = match state {
                State::Idle(speech) => speech,
                State::Busy => {
                    let error = Error::new(ErrorKind::Busy, "another thread reads this stream");
                    return Err(raise(error.with_hint("read it on one thread")));
                }
                State::Ended => {
                    open.lock().state = State::Ended;
                    return Ok(None);
                }
            };
            let drawn = signal::alone(py, move |_: &_| {
                let piece = speech.next();
                Ok((speech, piece))
            });
            let mut open = open.lock();
            open.state = State::Ended;
            let (speech, piece) = drawn?;
            open.ledger = speech.ledger();
            open.notes = super::said(speech.notes());
            let Some(piece) = piece.transpose().map_err(raise)? else { return Ok(None) };
            open.codes.append(piece.codes.frames()).map_err(raise)?;
            open.state = State::Idle(speech);
            if !piece.samples.is_empty() {
                return Ok(Some(PyArray1::from_vec(py, piece.samples)));
            }
        }
    }

    /// Samples per second.
    #[getter]
    fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    /// The codes so far, int32 [n] for each level.
    #[getter]
    fn codes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let codes = self.open.get()?.lock().codes.clone();
        super::levels(py, &codes)
    }

    /// The account of the tokens so far: accepted, rejected, resyncs, frames, concealed_frames, dropped_frames.
    #[getter]
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ledger = self.open.get()?.lock().ledger;
        super::account(py, ledger)
    }

    /// What a listener should know so far, such as a piece that the model did not end.
    #[getter]
    fn notes(&self) -> PyResult<Vec<String>> {
        Ok(self.open.get()?.lock().notes.clone())
    }
}

impl PySpeechStream {
    pub(super) fn new(speech: Speech, codec: &Arc<Model>) -> Self {
        let config = codec.config();
        let (codes, ledger, notes) = (Codes::empty(config), speech.ledger(), Vec::new());
        let open = Open { state: State::Idle(Box::new(speech)), codes, ledger, notes };
        Self { open: Local::new(Mutex::new(open)), sample_rate: config.sampling_rate }
    }
}
