//! Single notes to rows of samples.

use melisma::synth::{self, Instrument, MAX_SECONDS, Solo};
use melisma::{Error, Result};
use numpy::{PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;

use super::live::named;
use crate::error::raise;
use crate::signal::Watch;
use crate::{exec_context, out};

/// What all voices have in common.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct VoiceArgs {
    instrument: String,
    /// Of each row.
    seconds: f64,
    /// Until the notes are released.
    duration: f64,
    rate: u32,
    device: String,
}

/// Renders a row [samples] for each pitch and velocity, into `out` if it is given.
#[pyfunction(name = "_voices")]
pub fn voices<'py>(
    py: Python<'py>,
    pitches: PyReadonlyArray1<'py, f64>,
    velocities: PyReadonlyArray1<'py, f32>,
    args: VoiceArgs,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let instrument = named(&args.instrument, Instrument::ALL, Instrument::name, "instrument").map_err(raise)?;
    let n_samples = args.n_samples().map_err(raise)?;
    let each = pitches.as_slice()?.iter().zip(velocities.as_slice()?);
    let notes: Vec<Solo> =
        each.map(|(&pitch, &velocity)| Solo { instrument, pitch, velocity, duration: args.duration }).collect();
    let exec = exec_context::shared(py, Some(&args.device))?;
    let context = &exec.get()?.context;
    let array = out::target::<f32, _>(py, out, [notes.len(), n_samples])?;
    let mut target = out::writable(&array)?;
    let rows = target.as_slice_mut()?;
    py.detach(|| {
        let mut watch = Watch::new();
        let rendered = synth::voices(context, (&notes, args.rate), rows, &mut || watch.ask());
        watch.settle(rendered)
    })?;
    drop(target);
    Ok(array)
}

impl VoiceArgs {
    fn n_samples(&self) -> Result<usize> {
        if self.seconds > 0.0 && self.seconds <= MAX_SECONDS {
            return Ok((self.seconds * f64::from(self.rate)).round().max(1.0) as usize);
        }
        Err(Error::invalid(format!("seconds is {:?}: more than 0 and at most {MAX_SECONDS}", self.seconds)))
    }
}
