//! `melisma.mel`: spectrograms.

use half::f16;
use melisma::mel::{Config, KEYS, PRESETS, Sample, Transform, Value};
use melisma::runtime::device::Queue;
use melisma::{Error, Result};
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::raise;
use crate::exec_context::{self, ExecContext};
use crate::local::Shared;
use crate::signal::{self, Watch};
use crate::{array, out};

/// Points of a clip's transforms that take a tenth of a second or more.
const LONG: usize = 1 << 24;

/// A spectrogram's settings with its tables on a device.
#[pyclass(name = "Transform", module = "melisma.mel", frozen)]
pub struct PyTransform {
    opened: Shared<Opened>,
}

struct Opened {
    transform: Transform,
    exec: Shared<ExecContext>,
}

#[pymethods]
impl PyTransform {
    /// Reads the settings of `preset`, with `values` in place of its own.
    #[new]
    #[pyo3(signature = (preset="builder", *, device=None, **values))]
    fn new(py: Python<'_>, preset: &str, device: Option<&str>, values: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut config = Config::preset(preset).map_err(raise)?;
        if let Some(values) = values {
            set(&mut config, values)?;
        }
        let exec = exec_context::shared(py, device)?;
        let at = exec.get()?;
        let transform = py.detach(|| Transform::new_in(&at.context, config)).map_err(raise)?;
        Ok(Self { opened: Shared::new(Opened { transform, exec }) })
    }

    /// Returns its settings by name.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_string(self.opened.get()?.transform.config()).unwrap_or_default();
        array::parsed(py, &json)
    }

    /// Returns the spectrogram's shape of `n_samples` samples.
    fn shape<'py>(&self, py: Python<'py>, n_samples: usize) -> PyResult<Bound<'py, PyTuple>> {
        let transform = &self.opened.get()?.transform;
        let n_frames = transform.config().n_frames(n_samples).map_err(raise)?;
        PyTuple::new(py, transform.config().shape(n_frames))
    }

    /// Computes the spectrogram of `samples` [samples], or those of the rows of [batch, samples],
    /// float32 or int16 at the rate of these settings, into `out` or a new array.
    #[pyo3(name = "_run", signature = (samples, out=None))]
    fn run<'py>(&self, samples: &Bound<'py, PyAny>, out: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        match samples.cast::<PyArrayDyn<i16>>() {
            Ok(samples) => self.on(samples, out),
            Err(_) => self.on(samples.cast::<PyArrayDyn<f32>>()?, out),
        }
    }
}

impl PyTransform {
    fn on<'py, S: Sample + numpy::Element>(
        &self,
        samples: &Bound<'py, PyArrayDyn<S>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let config = self.opened.get()?.transform.config();
        match config.dtype.bytes() {
            2 => self.to::<S, f16>(samples, out),
            _ => self.to::<S, f32>(samples, out),
        }
    }

    fn to<'py, S: Sample + numpy::Element, D: Value + numpy::Element>(
        &self,
        samples: &Bound<'py, PyArrayDyn<S>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = samples.py();
        let Opened { transform, exec } = self.opened.get()?;
        let queue = exec.get()?.context.queue();
        let samples = samples.try_readonly()?;
        let (n_items, n_samples) = match *samples.shape() {
            [n_samples] => (None, n_samples),
            [n_items, n_samples] => (Some(n_items), n_samples),
            _ => {
                return Err(raise(Error::invalid(format!("samples have shape {:?}", samples.shape()))));
            }
        };
        let n_frames = transform.config().n_frames(n_samples).map_err(raise)?;
        let [rows, columns] = transform.config().shape(n_frames);
        let shape: Vec<usize> = n_items.into_iter().chain([rows, columns]).collect();
        let array = out::target::<D, _>(py, out, shape)?;
        let mut target = out::writable(&array)?;
        let (from, to) = (samples.as_slice()?, target.as_slice_mut()?);
        let mut run = |queue: &Queue, go_on: &mut dyn FnMut() -> Result<()>| {
            for item in 0..n_items.unwrap_or(1) {
                let from = &from[item * n_samples..][..n_samples];
                let to = &mut to[item * rows * columns..][..rows * columns];
                transform.run_on(queue, from, to)?;
                go_on()?;
            }
            Ok(())
        };
        if n_frames.saturating_mul(points(transform.config().n_fft)) < LONG {
            py.detach(|| {
                let mut watch = Watch::new();
                let ran = run(queue, &mut || watch.ask());
                watch.settle(ran)
            })?;
        } else {
            signal::watched(py, |stop| run(&queue.stopped_by(&stop.0), &mut || stop.check()), || Ok(()))?;
        }
        drop(target);
        Ok(array.into_any())
    }
}

/// Returns the number of points of a power of two whose transform takes as long as one of `n_fft` points.
fn points(n_fft: usize) -> usize {
    if n_fft.is_power_of_two() { n_fft } else { n_fft * n_fft.div_ceil(16) }
}

/// Changes values by name.
pub fn set(config: &mut Config, values: &Bound<'_, PyDict>) -> PyResult<()> {
    values.iter().try_for_each(|(key, value)| config.set(&format!("{key}={}", setting(&value)?)).map_err(raise))
}

/// Writes a value as `Config::set` takes it.
fn setting(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("none".to_owned());
    }
    crate::settings::text(value)
}

/// Returns the presets by name, with what each gives.
#[pyfunction(name = "_mel_presets")]
pub fn presets(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for (name, meaning) in PRESETS {
        all.set_item(name, meaning)?;
    }
    Ok(all)
}

/// Returns the names of all values with their meaning and what they allow.
#[pyfunction(name = "_mel_keys")]
pub fn keys(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for key in KEYS {
        all.set_item(key.name, format!("{} ({})", key.meaning, key.allowed))?;
    }
    Ok(all)
}
