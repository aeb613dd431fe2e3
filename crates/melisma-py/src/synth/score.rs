//! Scores: notes, bends and moves of controls.

use std::path::PathBuf;

use melisma::synth::{self, STYLES, Score, Style};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::variation::style;
use crate::error::raise;
use crate::signal;

/// A score as the library holds it.
#[pyclass(name = "_Score", module = "melisma._melisma", frozen)]
pub struct PyScore {
    pub score: Score,
    /// The file that it was read from, for SoundFonts: it has programs and controllers.
    pub midi: Option<Vec<u8>>,
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
        let read = Self::opened(py, || Score::from_midi(file))?;
        Ok(Self { midi: Some(file.to_vec()), ..read })
    }

    /// Composes a piece in the style called `preset`, changed by keywords.
    #[staticmethod]
    #[pyo3(signature = (preset, seed, seconds, **changes))]
    fn compose_preset(
        py: Python<'_>,
        preset: &str,
        seed: u64,
        seconds: f64,
        changes: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let style = style(preset, changes)?;
        let compose = move |_: &_| synth::compose(&style, seed, seconds);
        Ok(Self { score: signal::alone(py, compose)?, midi: None })
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
        Ok(Self { score: py.detach(make).map_err(raise)?, midi: None })
    }
}

/// Returns the number that a seed in words stands for.
#[pyfunction(name = "_seed")]
pub fn seed(text: &str) -> u64 {
    synth::seed(text)
}

/// Returns the presets by name, with what each is, those of a folder by path, and why files in it are no presets.
#[pyfunction(name = "_styles")]
pub fn styles(py: Python<'_>, folder: Option<PathBuf>) -> PyResult<(Bound<'_, PyDict>, Vec<String>)> {
    let (all, mut faults) = (PyDict::new(py), Vec::new());
    for style in STYLES {
        all.set_item(&*style.name, &*style.about)?;
    }
    let listed = py.detach(|| folder.map_or(Ok(Vec::new()), Style::list)).map_err(raise)?;
    for (path, style) in listed {
        match style {
            Ok(style) => all.set_item(path.into_os_string(), &*style.about)?,
            Err(error) => faults.push(error.to_string()),
        }
    }
    Ok((all, faults))
}
