//! Clips with labels, for training.

use std::path::PathBuf;

use melisma::Existing;
use melisma::audio::wav::SampleFormat;
use melisma::synth::{Clips, SoundFont, Style, Variation, seed};
use melisma::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::variation;
use crate::error::raise;
use crate::exec_context::{ExecContext, ExecOptions};
use crate::signal::{self, Stop};

/// What all clips of a set have in common.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    preset: String,
    changes: Option<Py<PyDict>>,
    count: u32,
    seconds: f64,
    seed: String,
    rate: u32,
    loudness: Option<f64>,
    sample_format: String,
    soundfont: Option<PathBuf>,
}

impl Settings {
    fn clips(&self, variation: Variation, folder: PathBuf, existing: Existing) -> Result<Clips> {
        let preset = self.preset.strip_prefix("preset:").unwrap_or(&self.preset);
        let unknown = || Error::invalid(format!("sample_format is `{}`: s16, s24 or f32", self.sample_format));
        Ok(Clips::new(variation.apply(Style::find(preset)?), self.seconds, folder)
            .with_first_seed(seed(&self.seed))
            .with_sample_rate(self.rate)
            .with_format(SampleFormat::from_name(&self.sample_format).ok_or_else(unknown)?)
            .with_loudness(self.loudness)
            .with_soundfont(self.soundfont.as_ref().map(SoundFont::open).transpose()?)
            .with_existing(existing))
    }
}

/// Renders the clips of one shard that are missing, and returns how many there are and what they hold.
#[pyfunction(name = "_clips")]
pub fn make_clips<'py>(
    py: Python<'py>,
    folder: PathBuf,
    settings: Settings,
    shard: (usize, usize),
    exec: (Option<String>, usize),
    overwrite: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (device, threads) = exec;
    let exec =
        ExecContext::open(py, ExecOptions { device: device.as_deref(), threads: Some(threads), memory_limit: None })?;
    let existing = if overwrite { Existing::Replace } else { Existing::Refuse };
    let variation = variation::read(settings.changes.as_ref().map(|changes| changes.bind(py)))?;
    let clips = py.detach(|| settings.clips(variation, folder, existing)).map_err(raise)?;
    let part = Clips::shard(settings.count, shard);
    let work = |stop: &Stop| {
        let tick = || stop.check();
        clips.make(part.clone(), (exec.context.device(), exec.context.budget(), threads), &tick)
    };
    let total = signal::watched(py, work, || Ok(()))?;
    let row = PyDict::new(py);
    row.set_item("clips", part.len())?;
    row.set_item("clips_kept", total.kept)?;
    row.set_item("notes", total.notes)?;
    row.set_item("samples", total.samples)?;
    Ok(row)
}
