//! The codec model that `decode` and `encode` work with.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use melisma::runtime::config::Threads;
use melisma::runtime::device::{self, Device, DeviceRequest};
use melisma::runtime::memory::{self, Budget};
use melisma::snac::Model;
use melisma::{Error, Kind, Result};

use crate::session::Session;

/// The model that is part of the program.
pub const BUILTIN: &str = "builtin:mini24";

const DAMAGED: &str = "fetch the model again: its files are damaged, or not of one model";
const WANTED: &str =
    "a model is a directory with config.json and model.safetensors or pytorch_model.bin, or builtin:mini24";

/// A model and where it runs.
pub struct Codec {
    pub model: Arc<Model>,
    pub device: Device,
    pub load_seconds: f64,
}

impl Codec {
    /// Opens the model called `source` on the device that the settings ask for.
    pub fn open(session: &Session, source: &str) -> Result<Self> {
        let engine = session.engine()?;
        Self::open_on(engine.device.clone(), source, engine.memory.budget())
    }

    /// Opens it on the CPU, where encoders run.
    pub fn open_encoder(session: &Session, source: &str) -> Result<Self> {
        let device = place(session.config.device.value, session.config.threads.value)?;
        let budget = memory::budget(session.config.memory_limit.value, &device);
        Self::open_on(device, source, &budget)
    }

    fn open_on(device: Device, source: &str, budget: &Budget) -> Result<Self> {
        let _span = tracing::info_span!("load").entered();
        let start = Instant::now();
        let model = open(source, &device, budget).map_err(|error| match error.kind() {
            Kind::Corrupt | Kind::Truncated => with_hint(error, DAMAGED),
            _ => with_hint(error, WANTED),
        })?;
        Ok(Self { model: Arc::new(model), device, load_seconds: start.elapsed().as_secs_f64() })
    }
}

/// Adds a hint where there is none.
pub fn with_hint(error: Error, hint: &str) -> Error {
    if error.hint().is_some() { error } else { error.with_hint(hint) }
}

fn open(source: &str, device: &Device, budget: &Budget) -> Result<Model> {
    // A pipe or a device has no end that could be relied on.
    match std::fs::metadata(Path::new(source)) {
        Ok(data) if !source.starts_with("builtin:") && !data.is_file() && !data.is_dir() => {
            Err(Error::invalid(format!("{source}: this is neither a file nor a directory")))
        }
        _ => Model::open_on(source, device, budget),
    }
}

/// Encoders run on the CPU; a GPU that was asked for by name is not replaced by it.
fn place(request: DeviceRequest, threads: Threads) -> Result<Device> {
    match request {
        DeviceRequest::Cuda(_) => {
            device::select(request, threads)?;
            Err(Error::unsupported(format!("{request}: encoders run on the CPU"))
                .with_hint("use --device cpu or --device auto"))
        }
        DeviceRequest::Auto | DeviceRequest::Cpu => device::select(DeviceRequest::Cpu, threads),
    }
}
