//! The device, its queue and its memory.

use melisma::Context;
use melisma::config::{Config, Layers};
use melisma::lock::Mutex;
use melisma_server::upstream;
use pyo3::prelude::*;

use crate::error::raise;
use crate::local::Shared;
use crate::settings;

/// Where work runs.
pub struct Place {
    pub config: Config,
    pub upstream: upstream::Config,
    pub context: Context,
}

/// The arguments that choose a place; `None` leaves a setting as file, environment and profile have it.
#[derive(Clone, Copy, Default)]
pub struct Choice<'a> {
    pub device: Option<&'a str>,
    pub threads: Option<usize>,
    pub memory_limit: Option<&'a Bound<'a, PyAny>>,
}

impl Place {
    pub fn open(py: Python<'_>, choice: Choice<'_>) -> PyResult<Self> {
        let mut sources = settings::sources(None, None, choice.memory_limit)?;
        if let Some(device) = choice.device {
            sources.flags.push(("device", "device", device.to_owned()));
        }
        if let Some(threads) = choice.threads {
            sources.flags.push(("threads", "threads", threads.to_string()));
        }
        let open = || {
            let layers = Layers::read(&sources)?;
            let config = Config::of(&layers)?;
            Ok(Self { context: Context::of(&config)?, upstream: layers.section()?, config })
        };
        py.detach(open).map_err(raise)
    }
}

/// Locked only while the interpreter is held, so that a fork never copies a locked mutex.
static SHARED: Mutex<Vec<(Option<String>, Shared<Place>)>> = Mutex::new(Vec::new());

/// The place of `device` that functions without one of their own use, made once in each process.
pub fn shared(py: Python<'_>, device: Option<&str>) -> PyResult<Shared<Place>> {
    let find = || {
        let mut places = SHARED.lock();
        places.retain(|(_, place)| place.is_here());
        places.iter().find(|(name, _)| name.as_deref() == device).map(|(_, place)| place.clone())
    };
    if let Some(place) = find() {
        return Ok(place);
    }
    let place = Shared::new(Place::open(py, Choice { device, ..Choice::default() })?);
    if let Some(earlier) = find() {
        return Ok(earlier);
    }
    SHARED.lock().push((device.map(str::to_owned), place.clone()));
    Ok(place)
}
