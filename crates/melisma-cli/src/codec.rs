//! The codec model that `decode` and `encode` work with.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use melisma::pack::{self, Header, ReadAt};
use melisma::runtime::device::Device;
use melisma::runtime::memory::{Needed, Reservation, Space};
use melisma::snac::{self, Model, builtin_weights};
use melisma::{Context, Error, ErrorKind, Result};

use crate::session::Session;

/// The codec for any audio that is built into the program.
pub const BUILTIN: &str = snac::MINI24;

const DAMAGED: &str = "fetch the model again: its files are damaged, or not of one model";
const WANTED: &str =
    "a model is a folder with config.json and model.safetensors or pytorch_model.bin, or builtin:mini24";

/// A model and the device it runs on.
pub struct Codec {
    pub model: Arc<Model>,
    pub device: Device,
    pub load_seconds: f64,
    /// Counts the weights in memory.
    _memory: Reservation,
}

impl Codec {
    /// Opens the model `source` on the configured device, if the limit has room for it.
    pub fn open(session: &Session, source: &str) -> Result<Self> {
        let context = session.context()?;
        session.require(context.device(), "loading this model", Needed { host: loaded_bytes(source), device: 0 })?;
        Self::open_in(context, source)
    }

    /// Warns in one line that language models cannot use `what` if it is of a built-in model, and says what to do.
    pub fn warn_of_builtin(&self, session: &Session, what: &str, remedy: &str) {
        if let Some(name) = self.model.builtin_name() {
            session.say(&format!(
                "warning: {what} of {name}; a language model such as Orpheus needs those of its own codec: {remedy}"
            ));
        }
    }

    /// Opens the model in `context` and counts its weights.
    pub fn open_in(context: &Context, source: &str) -> Result<Self> {
        let _span = tracing::info_span!("load").entered();
        let start = Instant::now();
        let loaded = context.memory().reserve(Space::Host, loaded_bytes(source))?;
        let model = Model::open_in(context, source).map_err(|error| match error.kind() {
            ErrorKind::Corrupt | ErrorKind::Truncated => with_hint(error, DAMAGED),
            _ => match hub_name(source) {
                Some(name) => {
                    let download = format!("hf download {source} --local-dir {name}");
                    with_hint(error, &format!("download it first: `{download}`, then use --model {name}"))
                }
                None => with_hint(error, WANTED),
            },
        })?;
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Self { model: Arc::new(model), device: context.device().clone(), load_seconds, _memory: loaded })
    }
}

/// Returns the name of a model if `source` is `OWNER/NAME` as on Hugging Face, and nothing of that name is here.
fn hub_name(source: &str) -> Option<&str> {
    let (owner, name) = source.split_once('/')?;
    let is_name = |part: &str| part.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && !part.contains('/');
    (is_name(owner) && is_name(name) && !Path::new(owner).exists()).then_some(name)
}

/// Returns the bytes of a model's weights as floats in memory, estimated from the largest weights file that
/// `source` can refer to. A file that cannot be read counts as 0, because opening it fails later.
pub fn loaded_bytes(source: &str) -> u64 {
    if source.starts_with("builtin:") {
        return builtin_weights(source).map_or(0, |weights| builtin_bytes(&weights));
    }
    let path = Path::new(source);
    let is_weights = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "safetensors" || suffix == "bin");
    let in_folder = || std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> =
        if path.is_dir() { in_folder().filter(is_weights).collect() } else { vec![path.to_owned()] };
    let len = |path: &PathBuf| std::fs::metadata(path).ok().filter(|data| data.is_file()).map_or(0, |data| data.len());
    let Some(largest) = files.into_iter().filter(|path| len(path) > 0).max_by_key(len) else { return 0 };
    File::open(&largest).ok().and_then(|file| floats(&file)).unwrap_or_else(|| len(&largest))
}

/// Returns the bytes of a built-in model as floats, and where it is packed also as the halves that it is decoded to.
fn builtin_bytes(weights: &&'static [u8]) -> u64 {
    let floats = floats(weights).unwrap_or(0);
    if pack::is_packed(weights).unwrap_or(false) { floats + floats / 2 } else { floats }
}

/// Returns the bytes of all tensors in a safetensors file, packed or not, as floats.
fn floats(file: &impl ReadAt) -> Option<u64> {
    let header = pack::source_header(file).or_else(|_| Header::read(file)).ok()?;
    let elements = |shape: &[u64]| shape.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
    let mut counts = header.tensors.iter().map(|tensor| elements(&tensor.shape));
    counts.try_fold(0u64, |sum, count| sum.checked_add(count?))?.checked_mul(4)
}

/// Adds a hint unless the error already has one.
pub fn with_hint(error: Error, hint: &str) -> Error {
    if !error.remedies().is_empty() { error } else { error.with_hint(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub_are_told_from_paths() {
        assert_eq!(hub_name("hubertsiuzdak/snac_24khz"), Some("snac_24khz"));
        for path in ["snac_24khz", "snac_24khz/", "./snac_24khz", "../a", "/a/b", "a/b/c", "src/codec"] {
            assert_eq!(hub_name(path), None, "{path}");
        }
    }

    #[test]
    fn halves_become_floats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        let json = br#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[3,4],"data_offsets":[0,24]}}"#;
        let bytes = [&(json.len() as u64).to_le_bytes()[..], json, &[0; 24]].concat();
        std::fs::write(&path, &bytes).unwrap();
        for source in [path.as_path(), folder.path()] {
            assert_eq!(loaded_bytes(source.to_str().unwrap()), 48, "{}", source.display());
        }
        assert_eq!(loaded_bytes("/dev/zero"), 0);
    }

    #[test]
    fn built_in_codecs_have_a_size() {
        let megabytes = |name| loaded_bytes(name) / 1_000_000;
        // 3.7 and 1.9 million weights.
        assert_eq!(megabytes(snac::MINI24), 14);
        #[cfg(feature = "voice")]
        assert_eq!(megabytes(snac::SOLO24), 11);
    }
}
