//! The room `pack`: sizes of real weights, speeds of one core and of two, and the ladder of
//! techniques, beside zstd, lz4 and ZipNN on the same files.
//!
//! The script fetches packages with the weights into the cache folder. Without Python or a network,
//! only synthetic weights are measured.

mod cuda;
mod ladder;
mod speed;

use std::collections::BTreeMap;

use melisma::pack::{self, Options};
use melisma::runtime::device::Device;
use melisma::{Budget, Error, ErrorKind, Result};

use super::{BenchContext, Peer, Row, peer};

const PEERS: &str = include_str!("../peers/pack.py");

/// Peer to figure to value.
type Figures = BTreeMap<String, BTreeMap<String, f64>>;

pub(super) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let Device::Cpu(cpu) = context.device else { return cuda::rows(context) };
    let mut rows = Vec::new();
    for (name, path) in weights() {
        let figures = peers(&path);
        let source = std::fs::read(&path).map_err(|error| Error::io(&path, error))?;
        rows.push(size(&name, &source, &figures)?);
        if name.starts_with("minilm") {
            rows.extend(speed::rows(&name, &source, &figures)?);
        }
    }
    let layers = ladder::layers();
    rows.extend(speed::rows("layer bf16", &layers[0], &Figures::new())?);
    rows.extend(ladder::rows(&layers, cpu.threads)?);
    Ok(rows)
}

/// Returns the paths of real weights by name; empty if they cannot be fetched.
fn weights() -> BTreeMap<String, String> {
    let cache = match std::env::var_os("MELISMA_CACHE_DIR") {
        Some(cache) => std::path::PathBuf::from(cache),
        None => std::env::temp_dir().join("melisma"),
    };
    let folder = cache.join("weights").display().to_string();
    peer("models", PEERS, &["weights", &folder])
        .and_then(|value| serde_json::from_value(value).ok())
        .unwrap_or_default()
}

fn peers(path: &str) -> Figures {
    let value = peer("zstandard, lz4 and zipnn", PEERS, &["peers", path]);
    value.and_then(|mut value| serde_json::from_value(value[path].take()).ok()).unwrap_or_default()
}

/// Returns the row's peers: the programs in `figures` that have `key`, in the row's unit.
fn beside(figures: &Figures, key: &str, scale: f64) -> Vec<Peer> {
    let peer = |(name, values): (&String, &BTreeMap<String, f64>)| {
        values.get(key).map(|value| Peer { name: name.clone(), median: value * scale })
    };
    figures.iter().filter_map(peer).collect()
}

/// Measures the size of the whole packed file, beside the source and the peers' results.
fn size(name: &str, source: &[u8], figures: &Figures) -> Result<Row> {
    let packed = packed(source, None, 1)?;
    let len = source.len() as f64;
    let mut peers = vec![Peer { name: "source".to_owned(), median: len }];
    peers.extend(beside(figures, "ratio", len));
    Ok(Row { peers, ..Row::single(format!("pack/size {name}"), "bytes", packed.len() as f64) })
}

fn packed(source: &[u8], tile_size: Option<u32>, threads: usize) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    pack::pack(
        &source,
        &mut packed,
        &Options::new(&Budget::unlimited()).with_tile_size(tile_size).with_threads(threads),
        &|_| {},
    )?;
    Ok(packed)
}

fn check_equal<T: PartialEq>(found: T, expected: T, what: &str) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Check, format!("{what} did not come back as it was"))),
    }
}
