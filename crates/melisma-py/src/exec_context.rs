//! The device, its queue and its memory.

use melisma::Context;
use melisma::config::{Config, Layers};
use melisma::lock::Mutex;
use melisma::speak;
use melisma_server::upstream;
use pyo3::prelude::*;

use crate::error::raise;
use crate::local::Shared;
use crate::settings;

/// A device with its settings, queue and memory.
pub struct ExecContext {
    pub config: Config,
    pub upstream: upstream::Config,
    pub serve: melisma_server::Config,
    pub speak: speak::Config,
    pub context: Context,
}

/// The arguments that choose a device; `None` leaves a setting to the file, the environment and the profile.
#[derive(Clone, Copy, Default)]
pub struct ExecOptions<'a> {
    pub device: Option<&'a str>,
    pub threads: Option<usize>,
    pub memory_limit: Option<&'a Bound<'a, PyAny>>,
}

impl ExecContext {
    pub fn open(py: Python<'_>, options: ExecOptions<'_>) -> PyResult<Self> {
        let mut sources = settings::sources(None, None, options.memory_limit)?;
        if let Some(device) = options.device {
            sources.flags.push(("device", "device", device.to_owned()));
        }
        if let Some(threads) = options.threads {
            sources.flags.push(("threads", "threads", threads.to_string()));
        }
        let open = || {
            let layers = Layers::read(&sources)?;
            let config = Config::of(&layers)?;
            let (upstream, serve, speak) = (layers.section()?, layers.section()?, layers.section()?);
            Ok(Self { context: Context::of(&config)?, upstream, serve, speak, config })
        };
        py.detach(open).map_err(raise)
    }
}

/// Locked only while the interpreter is held, so that a fork never copies a locked mutex.
static SHARED: Mutex<Vec<(Option<String>, Shared<ExecContext>)>> = Mutex::new(Vec::new());

/// Returns the context of `device` that functions without their own share; opened once in each process.
pub fn shared(py: Python<'_>, device: Option<&str>) -> PyResult<Shared<ExecContext>> {
    let find = || {
        let mut contexts = SHARED.lock();
        contexts.retain(|(_, exec)| exec.is_here());
        contexts.iter().find(|(name, _)| name.as_deref() == device).map(|(_, exec)| exec.clone())
    };
    if let Some(exec) = find() {
        return Ok(exec);
    }
    let exec = Shared::new(ExecContext::open(py, ExecOptions { device, ..ExecOptions::default() })?);
    if let Some(earlier) = find() {
        return Ok(earlier);
    }
    SHARED.lock().push((device.map(str::to_owned), exec.clone()));
    Ok(exec)
}
