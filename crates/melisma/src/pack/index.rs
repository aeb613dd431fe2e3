//! The index of a sharded model, which names the file of each tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::{Header, TensorEntry, is_checkpoint, is_packed, source_header};
use crate::format::checkpoint::Checkpoint;
use crate::format::read_text;
use crate::output::{self, Existing};
use crate::{Error, Result};

/// The largest index; those of the largest models take a few megabytes.
const MAX_INDEX: u64 = 64 << 20;

/// An index whose shards hold exactly the tensors that it lists.
#[derive(Debug)]
pub struct Index {
    /// Where it is.
    pub path: PathBuf,
    /// Everything except the map.
    rest: Value,
    /// The shard of each tensor.
    pub map: BTreeMap<String, String>,
    /// All shards, opened.
    pub shards: Vec<(String, File)>,
}

impl Index {
    /// Opens the index at `path` and all of its shards.
    ///
    /// # Errors
    /// A file cannot be read, or the index and its shards do not belong together.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |message: String| Error::corrupt(format!("{}: {message}", path.display()));
        let text = read_text(path, MAX_INDEX)?;
        let mut rest: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let map = rest.get_mut("weight_map").map(Value::take).unwrap_or_default();
        let map: BTreeMap<String, String> =
            serde_json::from_value(map).map_err(|error| wrong(format!("weight_map: {error}")))?;
        let mut names: Vec<&String> = map.values().collect();
        names.sort_unstable();
        names.dedup();
        let mut shards = Vec::new();
        for shard in names {
            let inside = Path::new(shard).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside {
                return Err(wrong(format!("`{shard}` is not a file beside the index")));
            }
            let file = path.with_file_name(shard);
            output::protect(&file);
            shards.push((shard.clone(), open(&file)?));
        }
        let index = Self { path: path.to_owned(), rest, map, shards };
        index.check_names()?;
        Ok(index)
    }

    /// Rejects tensors that are missing, not listed, or in a different shard than the index says.
    fn check_names(&self) -> Result<()> {
        let wrong = |message: String| {
            Err(Error::corrupt(format!("{}: {message}", self.path.display()))
                .with_hint("the index and its shards must be of the same model; fetch them again"))
        };
        let mut found: BTreeMap<String, &str> = BTreeMap::new();
        for (shard, file) in &self.shards {
            for name in tensor_names(file).map_err(|error| error.at(self.beside(shard).display()))? {
                match self.map.get(&name) {
                    None => return wrong(format!("`{name}` is in {shard}, but not in the index")),
                    Some(listed) if listed != shard => {
                        return wrong(format!("`{name}` is in {shard}, the index says {listed}"));
                    }
                    Some(_) => found.insert(name, shard),
                };
            }
        }
        match self.map.iter().find(|(name, _)| !found.contains_key(*name)) {
            Some((name, shard)) => wrong(format!("`{name}` is missing in {shard}")),
            None => Ok(()),
        }
    }

    /// Returns the path of `shard`, beside the index.
    pub fn beside(&self, shard: &str) -> PathBuf {
        self.path.with_file_name(shard)
    }

    /// Writes an index that names the files to which `renamed` maps the shards.
    ///
    /// # Errors
    /// Those of `renamed`, or the file cannot be written, or exists and may not be replaced.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        renamed: impl Fn(&str) -> Result<String>,
        existing: Existing,
    ) -> Result<()> {
        let path = path.as_ref();
        let map = self.map.iter().map(|(name, shard)| Ok((name.clone(), json!(renamed(shard)?))));
        let mut all = self.rest.clone();
        all["weight_map"] = map.collect::<Result<_>>()?;
        output::write(path, format!("{all:#}\n").as_bytes(), existing)
    }

    /// Returns whether `shard` is packed beside its source: with the same tensors, and not older
    /// than it.
    pub fn is_packed(&self, shard: &str) -> bool {
        let source = self.beside(shard);
        let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
        let target = packed_path(&source);
        let Ok(file) = open(&target) else { return false };
        let names = |file| {
            tensor_names(file).ok().map(|mut names| {
                names.sort_unstable();
                names
            })
        };
        let Some((_, opened)) = self.shards.iter().find(|(name, _)| name == shard) else { return false };
        is_packed(&file).unwrap_or(false) && names(&file) == names(opened) && modified(&target) >= modified(&source)
    }

    /// Returns where the index of the packed shards goes.
    pub fn packed_path(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(".index.json").unwrap_or(&name);
        let stem = stem.strip_suffix(".safetensors").or_else(|| stem.strip_suffix(".bin")).unwrap_or(stem);
        self.path.with_file_name(format!("{stem}.packed.safetensors.index.json"))
    }

    /// Writes the index of the packed shards.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_packed(&self, existing: Existing) -> Result<()> {
        let renamed = |shard: &str| Ok(packed_path(Path::new(shard)).to_string_lossy().into_owned());
        self.write(self.packed_path(), renamed, existing)
    }
}

/// Returns the names of a file's tensors in the source.
fn tensor_names(file: &File) -> Result<Vec<String>> {
    if is_checkpoint(file) {
        return Ok(Checkpoint::read(file)?.names().map(str::to_owned).collect());
    }
    let names = |tensors: &[TensorEntry]| tensors.iter().map(|tensor| tensor.name.clone()).collect();
    match is_packed(file)? {
        true => Ok(names(&source_header(file)?.tensors)),
        false => Ok(names(&Header::read(file)?.tensors)),
    }
}

/// Returns the default name of the packed file of `source`.
pub fn packed_path(source: impl AsRef<Path>) -> PathBuf {
    let source = source.as_ref();
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    source.with_file_name(format!("{stem}.packed.safetensors"))
}

/// Opens a file of weights.
///
/// # Errors
/// The file cannot be read, or is a directory or a device.
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    let path = path.as_ref();
    let failed = |error| Error::io(path.display(), error).with_hint("check the name, and that you may read it");
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if data.is_file() {
        return Ok(file);
    }
    let kind = if data.is_dir() { "this is a folder" } else { "this is not a regular file" };
    Err(Error::invalid(format!("{}: {kind}", path.display()))
        .with_hint("name a file of weights, or the .index.json of its shards"))
}
