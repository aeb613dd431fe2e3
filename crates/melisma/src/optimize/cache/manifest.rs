//! The description of an entry: its parts, its files with their hashes, the plan, and outputs to
//! check it by.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Key, Parts};
use crate::format::hash;
use crate::{Error, ErrorKind, Result};

/// The version that this build reads and writes; entries of other versions are rebuilt.
pub const VERSION: u32 = 3;
pub(super) const NAME: &str = "manifest.json";
/// BLAKE3 of the manifest's bytes.
pub(super) const SEAL: &str = "seal";
const MAX_BYTES: u64 = 8 << 20;

/// The description of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Manifest {
    /// [`VERSION`]
    pub version: u32,
    /// The parts that the key is computed from.
    pub parts: Parts,
    /// Files below the entry by relative name.
    pub files: BTreeMap<String, FileEntry>,
    /// How to use the files, and what was measured.
    pub plan: Value,
    /// Outputs that the engine must reproduce.
    pub self_check: Vec<Sample>,
    /// Why it was built.
    pub reason: String,
    /// How long the build took.
    pub build_seconds: f64,
}

/// A file of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileEntry {
    /// Length of the file.
    pub bytes: u64,
    /// Hash of the file, see [`hash::file`].
    pub blake3: hash::Digest,
}

/// Some elements of one output, for inputs generated from the seed in the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Sample {
    /// The output's name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The largest absolute value of all elements.
    pub largest: f32,
    /// The distance between recorded elements.
    pub stride: usize,
    /// The recorded elements; null represents infinities and NaN.
    pub values: Vec<Option<f32>>,
}

/// How many elements of each output are recorded.
const N_RECORDED: usize = 256;

impl Sample {
    /// Records elements of `values`, the output called `name`.
    pub fn take(name: &str, shape: &[usize], values: &[f32]) -> Self {
        let stride = values.len().div_ceil(N_RECORDED).max(1);
        let largest =
            values.iter().filter(|value| value.is_finite()).fold(0.0_f32, |most, value| most.max(value.abs()));
        let recorded = values.iter().step_by(stride).map(|value| value.is_finite().then_some(*value)).collect();
        Self { name: name.to_owned(), shape: shape.to_vec(), largest, stride, values: recorded }
    }

    /// Compares with a new output: each recorded element must be within `tolerance` of the largest
    /// value.
    ///
    /// # Errors
    /// [`ErrorKind::Check`], naming the first element that differs.
    pub fn check(&self, shape: &[usize], values: &[f32], tolerance: f32) -> Result<()> {
        let differs = |what: String| Error::new(ErrorKind::Check, format!("self-check: output `{}` {what}", self.name));
        if shape != self.shape {
            return Err(differs(format!("has shape {shape:?}, not {:?}", self.shape)));
        }
        let bound = tolerance * self.largest.max(f32::MIN_POSITIVE);
        let now = values.iter().step_by(self.stride.max(1));
        if now.len() != self.values.len() {
            return Err(differs(format!("has {} recorded elements, not {}", self.values.len(), now.len())));
        }
        for (index, (now, recorded)) in now.zip(&self.values).enumerate() {
            let same = match recorded {
                Some(recorded) => (now - recorded).abs() <= bound,
                None => !now.is_finite(),
            };
            if !same {
                return Err(differs(format!("is {now} at element {}, not {recorded:?}", index * self.stride)));
            }
        }
        Ok(())
    }
}

impl Manifest {
    pub(super) fn read(folder: &Path, key: &Key) -> Result<Self> {
        let text = bytes(folder)?;
        let seal = bounded(&folder.join(SEAL))?;
        if seal != blake3::hash(&text).to_hex().as_bytes() {
            return Err(Error::corrupt("the manifest changed since it was written"));
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| Error::corrupt(error.to_string()))?;
        if manifest.version != VERSION {
            let message = format!("made by another version of the cache ({}, not {VERSION})", manifest.version);
            return Err(Error::new(ErrorKind::Version, message));
        }
        if manifest.parts.key() != *key {
            return Err(Error::corrupt("it is the entry of another key"));
        }
        Ok(manifest)
    }

    /// Checks every file against its length and hash.
    pub(super) fn check_files(&self, folder: &Path, threads: usize) -> Result<()> {
        for (name, entry) in &self.files {
            if !is_plain(name) {
                return Err(Error::corrupt(format!("`{name}` is not a name of a file in the entry")));
            }
            let path = folder.join(name);
            let data = std::fs::symlink_metadata(&path).map_err(|error| Error::io(name, error))?;
            if !data.is_file() || data.len() != entry.bytes {
                return Err(Error::corrupt(format!("{name}: {} bytes, not {}", data.len(), entry.bytes)));
            }
            if hash::file(&path, threads)? != entry.blake3 {
                return Err(Error::corrupt(format!("{name}: its content changed")));
            }
        }
        Ok(())
    }

    /// Lists the files of `folder`, then writes the manifest and its seal.
    pub(super) fn write(&mut self, folder: &Path, threads: usize) -> Result<()> {
        self.files.clear();
        let failed = |error| crate::output::failed(folder, error);
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let file = file.map_err(failed)?;
            let data = file.metadata().map_err(failed)?;
            // Engines that store their own files in subfolders check those files themselves.
            if data.is_file() {
                let name = file.file_name().into_string().map_err(|_| Error::corrupt("a file name is not UTF-8"))?;
                let entry = FileEntry { bytes: data.len(), blake3: hash::file(file.path(), threads)? };
                File::open(file.path()).and_then(|file| file.sync_all()).map_err(failed)?;
                self.files.insert(name, entry);
            }
        }
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::corrupt(error.to_string()))?;
        let seal = blake3::hash(&text).to_hex();
        for (name, bytes) in [(NAME, text.as_slice()), (SEAL, seal.as_bytes())] {
            std::fs::write(folder.join(name), bytes)
                .and_then(|()| File::open(folder.join(name))?.sync_all())
                .map_err(failed)?;
        }
        Ok(())
    }
}

/// Returns the bytes of the manifest on disk.
pub(super) fn bytes(folder: &Path) -> Result<Vec<u8>> {
    bounded(&folder.join(NAME))
}

fn bounded(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::io(path.display(), error);
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::corrupt(format!("{}: more than {MAX_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != ".."
}
