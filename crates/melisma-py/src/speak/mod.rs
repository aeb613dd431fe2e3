//! `melisma.speak`: texts to speech by a language model.

mod list;
mod speaker;
mod stream;

pub use speaker::PySpeaker;
pub use stream::PySpeechStream;

use melisma::snac::tokens::Ledger;
use melisma::snac::{Codes, DecodeOptions, Noise, Rounding};
use melisma::speak::{Delivery, Draw, Note, Settings};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// How a text is spoken; `None` is the model's own value.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Manner {
    speed: f64,
    noise: Option<u64>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    penalty_window: Option<usize>,
    free: bool,
}

impl Manner {
    /// Returns the delivery of a model whose own settings are `own`, with a codec that may round.
    fn delivery(&self, own: Settings, rounding: Rounding) -> Delivery {
        let mut settings = own;
        let sample = &mut settings.sample;
        sample.temperature = self.temperature.unwrap_or(sample.temperature);
        sample.top_k = self.top_k.unwrap_or(sample.top_k);
        sample.top_p = self.top_p.unwrap_or(sample.top_p);
        sample.min_p = self.min_p.unwrap_or(sample.min_p);
        sample.repetition_penalty = self.repetition_penalty.unwrap_or(sample.repetition_penalty);
        settings.penalty_window = self.penalty_window.unwrap_or(settings.penalty_window);
        settings.draw = if self.free { Draw::Free } else { Draw::Frames };
        let noise = self.noise.map_or(Noise::Off, Noise::Seed);
        let decoding = DecodeOptions::default().with_noise(noise).with_rounding(rounding);
        Delivery { decoding, speed: self.speed, ..settings.into() }
    }
}

/// Samples, codes of each level, ledger and notes.
type Spoken<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyList>, Bound<'py, PyDict>, Vec<String>);

/// The speech of a text.
struct Heard {
    samples: Vec<f32>,
    codes: Codes,
    ledger: Ledger,
    notes: Vec<Note>,
}

impl Heard {
    fn into_python(self, py: Python<'_>) -> PyResult<Spoken<'_>> {
        let codes = levels(py, &self.codes)?;
        Ok((PyArray1::from_vec(py, self.samples), codes, account(py, self.ledger)?, said(&self.notes)))
    }
}

fn levels<'py>(py: Python<'py>, codes: &Codes) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, codes.levels().into_iter().map(|level| PyArray1::from_vec(py, level)))
}

fn account(py: Python<'_>, ledger: Ledger) -> PyResult<Bound<'_, PyDict>> {
    let account = PyDict::new(py);
    account.set_item("accepted", ledger.accepted)?;
    account.set_item("rejected", ledger.rejected)?;
    account.set_item("resyncs", ledger.resyncs)?;
    account.set_item("frames", ledger.frames)?;
    account.set_item("concealed_frames", ledger.concealed_frames)?;
    account.set_item("dropped_frames", ledger.dropped_frames)?;
    Ok(account)
}

fn said(notes: &[Note]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}
