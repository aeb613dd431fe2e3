//! A codec model on a device.

use std::path::Path;
use std::sync::Arc;

use melisma::snac::{Model, Noise};
use melisma::{Error, Kind};
use pyo3::prelude::*;

use crate::error::raise;
use crate::place::{Choice, Place};

/// A model and where it runs.
pub struct Codec {
    pub model: Arc<Model>,
    pub place: Place,
}

impl Codec {
    pub fn open(py: Python<'_>, source: &str, choice: Choice<'_>) -> PyResult<Self> {
        let place = Place::open(py, choice)?;
        let open = || {
            let path = Path::new(source);
            // A pipe or a device file may never end.
            if std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
                return Err(Error::invalid(format!("{source}: this is neither a file nor a directory")));
            }
            Model::open(source, &place.device, place.budget()).map_err(explained)
        };
        Ok(Self { model: Arc::new(py.detach(open).map_err(raise)?), place })
    }
}

fn explained(error: Error) -> Error {
    if !error.remedies().is_empty() {
        return error;
    }
    error
        .with_hint("a model is a folder with config.json and model.safetensors or pytorch_model.bin, or builtin:mini24")
}

/// The noise of a seed; without one there is none.
pub fn noise(seed: Option<u64>) -> Noise {
    seed.map_or(Noise::Off, Noise::Seed)
}

/// `None` where the engine has no kernels for the model on the CPU, which the reference then runs.
pub fn engine<T>(made: melisma::Result<T>, place: &Place) -> melisma::Result<Option<T>> {
    match made {
        Ok(engine) => Ok(Some(engine)),
        Err(error) if error.kind() == Kind::Unsupported && matches!(place.device, melisma::Device::Cpu(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
