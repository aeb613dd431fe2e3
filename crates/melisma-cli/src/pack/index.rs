//! What packing and unpacking of sharded models share: checks, and the summary of all files.

use std::path::{Path, PathBuf};

use melisma::Existing;
use melisma::{Error, Remedy, Result};
use serde_json::{Value, json};

use super::show;
use crate::session::Session;

/// Returns whether `path` is named like an index of shards.
pub fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".index.json")
}

/// Returns the compression ratio over all files, and their summary.
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

pub fn refuse(flags: [(&str, bool); 3]) -> Result<()> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Error::invalid(format!("{flag} does not work with an index of shards"))
            .with_hint("results go beside their sources; for the rest, work on a single shard")),
        None => Ok(()),
    }
}

/// Checks all outputs before the first shard, so that the last one cannot fail because it exists.
pub fn refuse_existing(session: &Session, mut outputs: impl Iterator<Item = PathBuf>) -> Result<()> {
    match outputs.find(|path| session.existing == Existing::Refuse && path.symlink_metadata().is_ok()) {
        Some(path) => Err(Error::invalid(format!("{}: the file exists already", path.display()))
            .with_hint(Remedy::Replace)
            .or_hint("move it away")),
        None => Ok(()),
    }
}
