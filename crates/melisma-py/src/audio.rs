//! `melisma.audio`: files and resampling.

use std::path::PathBuf;

use melisma::audio::wav::SampleFormat;
use melisma::audio::{self, Clip, Format, Layout, Writer};
use melisma::output::{Existing, OutputFile};
use melisma::{Error, Result};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::error::raise;
use crate::signal;

/// Frames between two looks at signals.
const BLOCK: usize = 1 << 18;

/// Reads all channels of a file: samples [channels, samples] and their rate.
#[pyfunction(name = "_audio_read")]
pub fn read(py: Python<'_>, path: PathBuf) -> PyResult<(Bound<'_, PyArray2<f32>>, u32)> {
    let clip = py.detach(|| Clip::read(&path).map_err(|error| error.at(path.display()))).map_err(raise)?;
    let (n_channels, n_samples, sample_rate) = (clip.n_channels, clip.n_frames(), clip.sample_rate);
    let planes = py.detach(|| match n_channels {
        1 => clip.samples,
        _ => {
            (0..n_channels).flat_map(|channel| clip.samples.iter().skip(channel).step_by(n_channels).copied()).collect()
        }
    });
    Ok((PyArray1::from_vec(py, planes).reshape([n_channels, n_samples])?, sample_rate))
}

/// Writes samples [channels, samples] in the format that the suffix of `path` names.
#[pyfunction(name = "_audio_write")]
pub fn write(
    py: Python<'_>,
    path: PathBuf,
    samples: PyReadonlyArray2<'_, f32>,
    sample_rate: u32,
    sample_format: &str,
) -> PyResult<()> {
    let view = samples.as_array();
    py.detach(|| {
        let stored = SampleFormat::from_name(sample_format).ok_or_else(|| unknown(sample_format)).map_err(raise)?;
        let layout = Layout { sample_rate, n_channels: view.nrows() };
        let create = || -> Result<_> {
            let format = Format::of(&path, stored)?;
            Writer::new(OutputFile::create(&path, Existing::Replace)?, format, layout)
        };
        let mut writer = create().map_err(raise)?;
        for from in (0..view.ncols()).step_by(BLOCK) {
            let frames = from..view.ncols().min(from + BLOCK);
            let block: Vec<f32> = frames.flat_map(|frame| view.column(frame).to_vec()).collect();
            writer.write(&block).map_err(raise)?;
            signal::check()?;
        }
        writer.seal().and_then(OutputFile::commit).map_err(raise)
    })
}

/// Resamples one channel.
#[pyfunction(name = "_resample")]
pub fn resample<'py>(
    py: Python<'py>,
    samples: PyReadonlyArray1<'py, f32>,
    from_hz: u32,
    to_hz: u32,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let samples = samples.as_slice()?;
    Ok(PyArray1::from_vec(py, py.detach(|| audio::resample(samples, from_hz, to_hz)).map_err(raise)?))
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("unknown sample format `{name}`")).with_hint("use s16, s24 or f32")
}
