//! `melisma.audio`: files, resampling and changes of speed.

use std::path::PathBuf;

use melisma::audio::stretch::Stretch;
use melisma::audio::wav::SampleFormat;
use melisma::audio::{self, Clip, Format, Layout, Writer};
use melisma::output::{Existing, OutputFile};
use melisma::{Error, Result};
use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::error::raise;
use crate::out;
use crate::signal::{self, Watch};

/// Frames that are written or stretched at once.
const BLOCK: usize = 1 << 18;

/// Reads all channels of a file: samples [channels, samples] and their rate.
#[pyfunction(name = "_audio_read")]
pub fn read(py: Python<'_>, path: PathBuf) -> PyResult<(Bound<'_, PyArray2<f32>>, u32)> {
    let read = move |_: &_| {
        let clip = Clip::read(&path).map_err(|error| error.at(path.display()))?;
        let (n_channels, n_samples) = (clip.n_channels, clip.n_frames());
        let planes = match n_channels {
            1 => clip.samples,
            _ => (0..n_channels)
                .flat_map(|channel| clip.samples.iter().skip(channel).step_by(n_channels).copied())
                .collect(),
        };
        Ok((planes, [n_channels, n_samples], clip.sample_rate))
    };
    let (planes, shape, sample_rate) = signal::alone(py, read)?;
    Ok((PyArray1::from_vec(py, planes).reshape(shape)?, sample_rate))
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
    let view = rows(&samples)?;
    py.detach(|| {
        let mut watch = Watch::new();
        let written = (|| {
            let stored = SampleFormat::from_name(sample_format).ok_or_else(|| unknown(sample_format))?;
            let layout = Layout::new(sample_rate, view.nrows());
            let format = Format::of(&path, stored)?;
            let mut writer = Writer::new(OutputFile::create(&path, Existing::Replace)?, format, layout)?;
            for block in interleaved(view) {
                writer.write(&block)?;
                watch.ask()?;
            }
            writer.seal().and_then(OutputFile::commit)
        })();
        watch.settle(written)
    })
}

/// Returns the elements in C order. Those of an array without any may be at an address that `as_array` refuses.
fn rows<'a>(samples: &'a PyReadonlyArray2<'_, f32>) -> PyResult<ArrayView2<'a, f32>> {
    let [n_rows, n_samples] = [samples.shape()[0], samples.shape()[1]];
    let view = ArrayView2::from_shape([n_rows, n_samples], samples.as_slice()?);
    view.map_err(|error| raise(Error::invalid(format!("samples: {error}"))))
}

/// Returns blocks of [channels, samples] with the channels in turns.
fn interleaved(view: ArrayView2<'_, f32>) -> impl Iterator<Item = Vec<f32>> {
    let (n_channels, n_samples) = view.dim();
    (0..n_samples).step_by(BLOCK).map(move |from| {
        let n = BLOCK.min(n_samples - from);
        let mut block = vec![0.0; n * n_channels];
        for (channel, samples) in view.rows().into_iter().enumerate() {
            let places = block.iter_mut().skip(channel).step_by(n_channels);
            places.zip(samples.iter().skip(from)).for_each(|(place, sample)| *place = *sample);
        }
        block
    })
}

/// Resamples rows, [rows, samples].
#[pyfunction(name = "_resample")]
pub fn resample<'py>(
    py: Python<'py>,
    samples: PyReadonlyArray2<'py, f32>,
    from_hz: u32,
    to_hz: u32,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let [n_rows, n_samples] = [samples.shape()[0], samples.shape()[1]];
    let n_made = audio::resampled_len(n_samples, from_hz, to_hz).map_err(raise)?;
    let array = out::target(py, out, [n_rows, n_made])?;
    let mut target = out::writable(&array)?;
    let (from, to) = (samples.as_slice()?, target.as_slice_mut()?);
    py.detach(|| {
        let mut watch = Watch::new();
        let rows = from.chunks(n_samples.max(1)).zip(to.chunks_mut(n_made.max(1)));
        let resampled = rows.into_iter().try_for_each(|(from, mut to)| {
            audio::resample_with(from, from_hz, to_hz, |block| {
                fill(&mut to, block)?;
                watch.ask()
            })
        });
        watch.settle(resampled)
    })?;
    drop(target);
    Ok(array)
}

/// Plays samples [channels, samples] `speed` times as fast at the same pitch.
#[pyfunction(name = "_stretch")]
pub fn stretch<'py>(
    py: Python<'py>,
    samples: PyReadonlyArray2<'py, f32>,
    sample_rate: u32,
    speed: f64,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let view = rows(&samples)?;
    let n_channels = view.nrows();
    let stretched = py.detach(|| {
        let mut watch = Watch::new();
        let stretched = (|| {
            let mut stretch = Stretch::new(Layout::new(sample_rate, n_channels), speed)?;
            let mut stretched = Vec::new();
            for block in interleaved(view) {
                stretched.extend_from_slice(stretch.push(&block));
                watch.ask()?;
            }
            stretched.extend(stretch.finish());
            Ok(stretched)
        })();
        watch.settle(stretched)
    })?;
    let n_samples = stretched.len() / n_channels.max(1);
    let frames = PyArray1::from_vec(py, stretched).reshape([n_samples, n_channels])?;
    // In C order, as all results are.
    Ok(py.import("numpy")?.call_method1("ascontiguousarray", (frames.transpose()?,))?.cast_into()?)
}

/// Puts `samples` at the start of `rest`, which then begins after them.
///
/// # Errors
/// There are more samples than room.
pub fn fill(rest: &mut &mut [f32], samples: &[f32]) -> Result<()> {
    let Some((now, later)) = std::mem::take(rest).split_at_mut_checked(samples.len()) else {
        return Err(Error::invalid("more samples than were announced"));
    };
    now.copy_from_slice(samples);
    *rest = later;
    Ok(())
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("unknown sample format `{name}`")).with_hint("use s16, s24 or f32")
}
