//! Scores: notes, bends and moves of controls.

use melisma::synth::{self, STYLES, Score, Style};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::raise;
use crate::signal;

/// A score as the library holds it.
#[pyclass(name = "_Score", module = "melisma._melisma", frozen)]
pub struct PyScore {
    pub score: Score,
}

#[pymethods]
impl PyScore {
    /// Parses and checks a score in JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::opened(py, || Score::from_json(text.as_bytes()))
    }

    /// Parses a MIDI file.
    #[staticmethod]
    fn from_midi(py: Python<'_>, file: &[u8]) -> PyResult<Self> {
        Self::opened(py, || Score::from_midi(file))
    }

    /// A piece in the style called `preset`.
    #[staticmethod]
    fn compose_preset(py: Python<'_>, preset: String, seed: u64, seconds: f64) -> PyResult<Self> {
        let compose = move |_: &_| {
            let preset = preset.strip_prefix("preset:").unwrap_or(&preset);
            synth::compose(&Style::named(preset)?, seed, seconds)
        };
        Ok(Self { score: signal::alone(py, compose)? })
    }

    fn to_json(&self) -> String {
        self.score.to_json()
    }

    fn to_midi<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.score.to_midi().map_err(raise)?))
    }
}

impl PyScore {
    fn opened(py: Python<'_>, make: impl FnOnce() -> melisma::Result<Score> + Send) -> PyResult<Self> {
        Ok(Self { score: py.detach(make).map_err(raise)? })
    }
}

/// The presets by name, with what each is.
#[pyfunction(name = "_styles")]
pub fn styles(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for style in STYLES {
        all.set_item(style.name, &*style.about)?;
    }
    Ok(all)
}
