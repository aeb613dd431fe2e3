//! Joining shards of lines, beside `cat`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use melisma::Existing;
use melisma::dataset::{Lines, Merge, StoreKind};
use melisma::runtime::device::available_threads;
use melisma::{Error, Result};
use serde_json::json;

use crate::folder::Folder;
use crate::measure::of_times;
use crate::{BenchContext, Measured, Peer, Row};

const SHARDS: usize = 1000;
/// Lines of a shard, of about a kilobyte each.
const ROWS: usize = 256;
const RUNS: usize = 5;

pub(crate) fn rows(context: BenchContext<'_>) -> Result<Vec<Row>> {
    let folder = Folder::create("lines")?;
    let (shards, n_bytes) = write(&folder, SHARDS)?;
    let gigabytes = n_bytes as f64 / 1e9;
    let output = folder.0.join("all.jsonl");
    let ours = timed(&output, || merge(context, &shards, &output))?;
    let mut row = ours.rate("dataset/lines, merge of 1,000 shards", "GB/s", gigabytes);
    for (name, sync) in [("cat", Sync::Later), ("cat, then sync", Sync::Now)] {
        if let Ok(measured) = timed(&output, || cat(&shards, &output, sync)) {
            row.peers.push(Peer { name: name.to_owned(), median: gigabytes / measured.median });
        }
    }
    Ok(vec![row])
}

/// Writes `n` shards of one build, and returns their paths and bytes.
fn write(folder: &Folder, n: usize) -> Result<(Vec<PathBuf>, u64)> {
    let codes: Vec<u32> = (0..200u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
    let line = json!({ "path": "speaker/0001.wav", "seconds": 4.266, "codes": [codes] }).to_string() + "\n";
    let lines = line.repeat(ROWS);
    let hash = blake3::hash(lines.as_bytes()).to_hex();
    let form = serde_json::to_value(Lines::default()).map_err(|error| Error::invalid(error.to_string()))?;
    let mut shards = Vec::new();
    for index in 1..=n {
        let name = format!("{index:04}.jsonl");
        folder.write(&name, lines.as_bytes())?;
        let origin = json!({
            "format": "melisma-lines", "lines": form, "rows": ROWS, "bytes": lines.len(), "blake3": hash.as_str(),
            "attributes": { "version": 4, "shard": format!("{index}/{n}"), "plan": index.to_string() },
        });
        folder.write(&format!("{name}.origin.json"), origin.to_string().as_bytes())?;
        shards.push(folder.0.join(name));
    }
    Ok((shards, (n * lines.len()) as u64))
}

fn merge(context: BenchContext<'_>, shards: &[PathBuf], output: &Path) -> Result<()> {
    let merge = Merge::new(shards, output, StoreKind::Hdf5, context.memory.budget())
        .with_existing(Existing::Replace)
        .with_threads(available_threads());
    melisma::dataset::merge(&merge).map(drop)
}

/// Whether a file must be on the disk when the time ends, as ours is.
#[derive(Clone, Copy)]
enum Sync {
    Later,
    Now,
}

fn cat(shards: &[PathBuf], output: &Path, sync: Sync) -> Result<()> {
    let failed = |error| Error::io(output.display(), error);
    let file = File::create(output).map_err(failed)?;
    let mut command = Command::new("cat");
    command.args(shards).stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?);
    if !command.status().map_err(failed)?.success() {
        return Err(Error::invalid("cat failed"));
    }
    match sync {
        Sync::Later => Ok(()),
        Sync::Now => file.sync_all().map_err(failed),
    }
}

/// Times `work`, which writes a new file each time. The first run warms the page cache.
fn timed(output: &Path, work: impl Fn() -> Result<()>) -> Result<Measured> {
    let mut times = Vec::new();
    for run in 0..=RUNS {
        let _ = std::fs::remove_file(output);
        let begin = Instant::now();
        work()?;
        if run > 0 {
            times.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok(of_times(times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use melisma::runtime::MemoryTracker;
    use melisma::runtime::device::Device;
    use melisma::runtime::memory::Budget;

    #[test]
    fn both_join_all_lines() {
        let folder = Folder::create("lines-test").unwrap();
        let (shards, n_bytes) = write(&folder, 3).unwrap();
        let (device, memory) = (Device::cpu().unwrap(), MemoryTracker::new(Budget::unlimited()));
        let [ours, theirs] = ["ours.jsonl", "theirs.jsonl"].map(|name| folder.0.join(name));
        merge(BenchContext { device: &device, memory: &memory }, &shards, &ours).unwrap();
        assert_eq!(std::fs::metadata(&ours).unwrap().len(), n_bytes);
        if cat(&shards, &theirs, Sync::Now).is_ok() {
            assert!(std::fs::read(ours).unwrap() == std::fs::read(theirs).unwrap());
        }
    }
}
