//! Presets and what callers change of them.

use melisma::synth::{Style, Variation};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;

/// Returns the style of `preset`, a name or a `.yaml` file with or without `preset:` before it, changed by keywords.
pub fn style(preset: &str, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Style> {
    let style = Style::find(preset.strip_prefix("preset:").unwrap_or(preset)).map_err(raise)?;
    Ok(read(changes)?.apply(style))
}

/// Returns a preset, changed by keywords, as the text of a file.
#[pyfunction(name = "_preset_yaml", signature = (preset, **changes))]
pub fn preset_yaml(preset: &str, changes: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    style(preset, changes).map(|style| style.to_yaml())
}

/// Reads texts and numbers by their names; None changes nothing.
pub fn read(changes: Option<&Bound<'_, PyDict>>) -> PyResult<Variation> {
    let mut variation = Variation::default();
    for (name, value) in changes.into_iter().flatten() {
        let name: String = name.extract()?;
        let text = match value.extract::<String>() {
            _ if value.is_none() => continue,
            Ok(text) => text,
            Err(_) => {
                let number: f64 = value.extract().map_err(|_| {
                    PyTypeError::new_err(format!("{name}: expected a text or a number, not {}", value.get_type()))
                })?;
                number.to_string()
            }
        };
        variation.set(&name, &text).map_err(raise)?;
    }
    Ok(variation)
}
