//! Sharded models: an index that names the file of each tensor. Every shard is packed beside it, and a new index names
//! the packed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use melisma::runtime::output;
use melisma::{Error, Kind, Result};
use serde_json::{Value, json};

use super::default_output;
use crate::args::PackArgs;
use crate::session::{Session, read_text};

/// Indices of the largest models take some megabytes.
const MAX_INDEX: u64 = 64 << 20;

/// Whether `path` is an index of shards, by its name.
pub fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".index.json")
}

/// Packs every shard with `pack`, which is given the source and where to put it, then writes the new index.
pub fn run(session: &Session, args: &PackArgs, mut pack: impl FnMut(&Path, &Path) -> Result<Value>) -> Result<()> {
    if args.output.is_some() || args.rm || args.delta.is_some() {
        return Err(Error::invalid("an index of shards takes no -o, --rm or --delta")
            .with_hint("packed shards go beside their sources; pack a single file for the rest"));
    }
    let wrong = |message: String| Error::new(Kind::Corrupt, format!("{}: {message}", args.input.display()));
    let mut index: Value =
        serde_json::from_str(&read_text(&args.input, MAX_INDEX)?).map_err(|error| wrong(error.to_string()))?;
    let map: BTreeMap<String, String> =
        serde_json::from_value(index["weight_map"].take()).map_err(|error| wrong(format!("weight_map: {error}")))?;
    let shards: BTreeSet<&String> = map.values().collect();
    let mut files = Vec::new();
    for shard in shards {
        let inside = Path::new(shard).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(wrong(format!("`{shard}` is not a file beside the index")));
        }
        let source = args.input.with_file_name(shard);
        files.push(pack(&source, &default_output(&source))?);
    }
    index["weight_map"] =
        map.iter().map(|(name, shard)| (name.clone(), json!(default_output(Path::new(shard))))).collect();
    let path = new_index(&args.input);
    output::write(&path, format!("{index:#}\n").as_bytes(), session.existing)?;
    let sum = |key: &str| files.iter().filter_map(|file| file[key].as_u64()).sum::<u64>();
    let (bytes_in, bytes_out) = (sum("bytes_in"), sum("bytes_out"));
    let ratio = bytes_out as f64 / bytes_in.max(1) as f64;
    let text = format!("{}: {} files, {:.2} %, verified\n", path.display(), files.len(), 100.0 * ratio);
    let json = json!({
        "output": path.display().to_string(), "bytes_in": bytes_in, "bytes_out": bytes_out, "ratio": ratio,
        "verified": true, "files": files,
    });
    session.print("cpu", || text, json)
}

fn new_index(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".index.json").unwrap_or(&name);
    let stem = stem.strip_suffix(".safetensors").unwrap_or(stem);
    path.with_file_name(format!("{stem}.packed.safetensors.index.json"))
}
