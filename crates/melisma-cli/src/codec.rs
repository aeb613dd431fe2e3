//! The codec model that `decode` and `encode` work with.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use melisma::pack::Archive;
use melisma::runtime::MemoryTracker;
use melisma::runtime::config::Threads;
use melisma::runtime::device::{self, Device, DeviceRequest};
use melisma::runtime::memory::{Reservation, Space};
use melisma::snac::{Model, mini24_weights};
use melisma::{Error, Kind, Result};
use serde_json::Value;

use crate::session::Session;

/// The model that is part of the program.
pub const BUILTIN: &str = "builtin:mini24";

/// Larger headers are not those of models of this kind.
const MAX_HEADER: u64 = 16 << 20;

const DAMAGED: &str = "fetch the model again: its files are damaged, or not of one model";
const WANTED: &str =
    "a model is a directory with config.json and model.safetensors or pytorch_model.bin, or builtin:mini24";

/// A model and where it runs.
pub struct Codec {
    pub model: Arc<Model>,
    pub device: Device,
    pub load_seconds: f64,
    /// The weights in memory.
    _memory: Reservation,
}

impl Codec {
    /// Opens the model called `source` on the device that the settings ask for.
    pub fn open(session: &Session, source: &str) -> Result<Self> {
        let device = &session.engine()?.device;
        session.within(device, "loading this model", |memory| Self::open_on(memory, device, source))
    }

    /// Opens it on `device`; its weights count in `memory`.
    pub fn open_on(memory: &MemoryTracker, device: &Device, source: &str) -> Result<Self> {
        let _span = tracing::info_span!("load").entered();
        let start = Instant::now();
        let weights = Weights::look(source);
        let loaded = memory.reserve(Space::Host, weights.loaded)?;
        let _file = memory.reserve(Space::Host, weights.file)?;
        let model = open(source).map_err(|error| match error.kind() {
            Kind::Corrupt | Kind::Truncated => with_hint(error, DAMAGED),
            _ => with_hint(error, WANTED),
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Self { model: Arc::new(model), device: device.clone(), load_seconds, _memory: loaded })
    }
}

/// Bytes of a model's weights: as they are read, and as floats in memory.
struct Weights {
    file: u64,
    loaded: u64,
}

impl Weights {
    /// Looks at the largest file of weights that `source` can mean. What cannot be read counts nothing: opening it fails.
    fn look(source: &str) -> Self {
        if source.starts_with("builtin:") {
            // Its bytes are part of the program.
            return Self { file: 0, loaded: mini24_weights().len() as u64 };
        }
        let path = Path::new(source);
        let is_weights =
            |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "safetensors" || suffix == "bin");
        let in_folder = || std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> =
            if path.is_dir() { in_folder().filter(is_weights).collect() } else { vec![path.to_owned()] };
        let len =
            |path: &PathBuf| std::fs::metadata(path).ok().filter(|data| data.is_file()).map_or(0, |data| data.len());
        let Some(largest) = files.into_iter().filter(|path| len(path) > 0).max_by_key(len) else {
            return Self { file: 0, loaded: 0 };
        };
        let file = len(&largest);
        let unpacked = File::open(&largest).ok().and_then(|file| Some(Archive::open(&file).ok()?.source_len()));
        match unpacked {
            // Unpacked first, and half precision becomes single.
            Some(unpacked) => Self { file: file + unpacked, loaded: 2 * unpacked },
            None => Self { file, loaded: floats(&largest).unwrap_or(file) },
        }
    }
}

/// Bytes of all tensors of a safetensors file as floats.
fn floats(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 8];
    file.read_exact(&mut head).ok()?;
    let len = u64::from_le_bytes(head);
    let mut header = Vec::new();
    file.take(len.min(MAX_HEADER)).read_to_end(&mut header).ok()?;
    let tensors: BTreeMap<String, Value> = serde_json::from_slice(&header).ok()?;
    let elements = |tensor: &Value| {
        let mut extents = tensor.get("shape")?.as_array()?.iter().map(Value::as_u64);
        extents.try_fold(1u64, |product, extent| product.checked_mul(extent?))
    };
    // Metadata have no shape.
    tensors.values().filter_map(elements).try_fold(0u64, u64::checked_add)?.checked_mul(4)
}

/// Adds a hint where there is none.
pub fn with_hint(error: Error, hint: &str) -> Error {
    if error.hint().is_some() { error } else { error.with_hint(hint) }
}

fn open(source: &str) -> Result<Model> {
    // A pipe or a device has no end that could be relied on.
    match std::fs::metadata(Path::new(source)) {
        Ok(data) if !source.starts_with("builtin:") && !data.is_file() && !data.is_dir() => {
            Err(Error::invalid(format!("{source}: this is neither a file nor a directory")))
        }
        _ => Model::open(source),
    }
}

/// Where encoders run: on the CPU; a GPU that was asked for by name is not replaced by it.
pub fn encoder_device(request: DeviceRequest, threads: Threads) -> Result<Device> {
    match request {
        DeviceRequest::Cuda(_) => {
            device::select(request, threads)?;
            Err(Error::unsupported(format!("{request}: encoders run on the CPU"))
                .with_hint("use --device cpu or --device auto"))
        }
        DeviceRequest::Auto | DeviceRequest::Cpu => device::select(DeviceRequest::Cpu, threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_floats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let json = br#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}}"#;
        let bytes = [&(json.len() as u64).to_le_bytes()[..], json, &[0; 24]].concat();
        std::fs::write(&path, &bytes).unwrap();
        for source in [path.as_path(), folder.path()] {
            let Weights { file, loaded } = Weights::look(source.to_str().unwrap());
            assert_eq!((file, loaded), (bytes.len() as u64, 48), "{}", source.display());
        }
        let Weights { file, loaded } = Weights::look("/dev/zero");
        assert_eq!((file, loaded), (0, 0));
    }
}
