//! The index of a sharded model, which names the file of each tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use melisma::format::checkpoint::Checkpoint;
use melisma::output::{self, Existing};
use melisma::pack as library;
use melisma::{Error, Remedy, Result};
use serde_json::{Value, json};

use super::resource::open;
use super::show;
use crate::session::{Session, read_text};

/// The largest index; those of the largest models take a few megabytes.
const MAX_INDEX: u64 = 64 << 20;

/// Whether `path` is named like an index of shards.
pub fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".index.json")
}

/// An index whose shards hold exactly the tensors that it lists.
pub struct Index {
    pub path: PathBuf,
    /// Everything except the map.
    rest: Value,
    /// The shard of each tensor.
    pub map: BTreeMap<String, String>,
    /// All shards, opened.
    pub shards: Vec<(String, File)>,
}

impl Index {
    pub fn open(path: &Path) -> Result<Self> {
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

    /// The path of `shard`, beside the index.
    pub fn beside(&self, shard: &str) -> PathBuf {
        self.path.with_file_name(shard)
    }

    /// Writes an index that names the files to which `renamed` maps the shards.
    pub fn write(mut self, path: &Path, renamed: impl Fn(&str) -> Result<String>, existing: Existing) -> Result<()> {
        let map = self.map.iter().map(|(name, shard)| Ok((name.clone(), json!(renamed(shard)?))));
        self.rest["weight_map"] = map.collect::<Result<_>>()?;
        output::write(path, format!("{:#}\n", self.rest).as_bytes(), existing)
    }
}

/// The names of a file's tensors in the source.
fn tensor_names(file: &File) -> Result<Vec<String>> {
    if library::is_checkpoint(file) {
        return Ok(Checkpoint::read(file)?.names().map(str::to_owned).collect());
    }
    let names = |tensors: &[library::TensorEntry]| tensors.iter().map(|tensor| tensor.name.clone()).collect();
    match library::is_packed(file)? {
        true => Ok(names(&library::source_header(file)?.tensors)),
        false => Ok(names(&library::Header::read(file)?.tensors)),
    }
}

/// The compression ratio over all files, and their summary.
pub fn totals(path: &Path, files: Vec<Value>) -> (f64, Value) {
    let [bytes_in, bytes_out] = ["bytes_in", "bytes_out"].map(|key| sum(&files, key));
    let ratio = show::ratio(bytes_out, bytes_in);
    let json = json!({
        "output": path.display().to_string(), "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": ratio,
        "verified": true, "files": files,
    });
    (ratio, json)
}

pub fn sum(files: &[Value], key: &str) -> u64 {
    files.iter().filter_map(|file| file[key].as_u64()).sum()
}

pub fn named(mut file: Value, path: &Path) -> Value {
    file["file"] = path.display().to_string().into();
    file
}

pub fn count(n: usize) -> String {
    if n == 1 { "1 file".to_owned() } else { format!("{n} files") }
}

pub fn refuse(flags: [(&str, bool); 3]) -> Result<()> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Error::invalid(format!("{flag} with an index of shards"))
            .with_hint("results go beside their sources; for the rest, work on a single shard")),
        None => Ok(()),
    }
}

/// Checks all outputs before the first shard, so that the last one cannot fail because it exists.
pub fn refuse_existing(session: &Session, mut outputs: impl Iterator<Item = PathBuf>) -> Result<()> {
    match outputs.find(|path| session.existing == Existing::Refuse && path.exists()) {
        Some(path) => Err(Error::invalid(format!("{}: the file exists already", path.display()))
            .with_hint(Remedy::Replace)
            .or_hint("move it away")),
        None => Ok(()),
    }
}
