//! Codes from arrays, and back.

use melisma::Error;
use melisma::snac::{Codes, Config};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error::raise;

/// Codes as the package hands them over, int32 and in C order.
#[derive(FromPyObject)]
pub enum CodesArg<'py> {
    /// `[n, slots]`
    Frames(PyReadonlyArray2<'py, i32>),
    /// One array for each level.
    Levels(Vec<PyReadonlyArray1<'py, i32>>),
}

impl CodesArg<'_> {
    pub fn codes(&self, config: &Config) -> PyResult<Codes> {
        match self {
            Self::Frames(frames) => {
                let [slots, width] = [config.n_slots(), frames.shape()[1]];
                if width != slots {
                    let message = format!("codes of shape {:?}; frames of this model are [n, {slots}]", frames.shape());
                    return Err(raise(Error::invalid(message)));
                }
                Codes::from_frames(config, frames.as_slice()?).map_err(raise)
            }
            Self::Levels(levels) => {
                let levels: Result<Vec<_>, _> =
                    levels.iter().map(|level| level.as_slice().map(<[i32]>::to_vec)).collect();
                Codes::new(config, levels?).map_err(raise)
            }
        }
    }
}

/// Returns one array for each level.
pub fn levels<'py>(py: Python<'py>, codes: &Codes) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, codes.levels().into_iter().map(|level| PyArray1::from_vec(py, level)))
}
