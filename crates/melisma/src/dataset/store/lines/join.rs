//! Joins files of lines: the bytes of one after those of the other.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use serde_json::{Map, Value};

use super::Lines;
use super::origin::Origin;
use crate::dataset::counters::Counters;
use crate::dataset::store::guard;
use crate::dataset::store::paths::beside;
use crate::output::{self, Existing, OutputFile};
use crate::runtime::thread;
use crate::{Error, Result};

/// Blocks of lines that wait to be written.
const BLOCKS: usize = 8;

/// Writes the lines of `parts` to `path`, in order, and that they have these attributes. Every byte is checked while
/// it is copied; with two `threads`, one reads and checks, and the other writes.
pub(in crate::dataset) fn join(
    parts: &[(&Path, Origin)],
    lines: Lines,
    attributes: Map<String, Value>,
    (path, existing): (&Path, Existing),
    (threads, counters): (usize, &Counters),
) -> Result<Origin> {
    let mut file = OutputFile::create(&beside(path, ".lines"), Existing::Replace)?;
    let (mut joined, mut hash) = (Origin::new(lines, attributes), blake3::Hasher::new());
    let mut append = |bytes: &[u8]| {
        counters.check_stop()?;
        hash.update(bytes);
        file.write_all(bytes).map_err(|error| output::failed(path, error))
    };
    match threads {
        0 | 1 => parts.iter().try_for_each(|(part, origin)| origin.read(part, &mut append))?,
        _ => read_ahead(parts, append)?,
    }
    joined.rows = parts.iter().map(|(_, origin)| origin.rows).sum();
    joined.bytes = parts.iter().map(|(_, origin)| origin.bytes).sum();
    if existing == Existing::Refuse && path.exists() {
        return Err(guard::already(path, ""));
    }
    // First: lines never appear without it.
    joined.blake3 = hash.finalize().to_hex().to_string();
    joined.write(path)?;
    file.commit_as(path.to_owned())?;
    Ok(joined)
}

/// Gives the bytes of `parts` to `each`, in order, while another thread reads and checks those that follow.
fn read_ahead(parts: &[(&Path, Origin)], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    std::thread::scope(|scope| {
        let (sender, blocks) = sync_channel::<Vec<u8>>(BLOCKS);
        let reader = thread::start_in(scope, move || {
            // Nobody takes the bytes once `each` has failed, and its error is the one that counts.
            let send =
                |bytes: &[u8]| sender.send(bytes.to_vec()).map_err(|_| Error::invalid("the lines were not taken"));
            parts.iter().try_for_each(|(part, origin)| origin.read(part, &send))
        })?;
        let taken = blocks.iter().try_for_each(|block| each(&block));
        drop(blocks);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        taken.and(read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_and_two_join_and_refuse_alike() {
        let folder = tempfile::tempdir().unwrap();
        let parts: Vec<_> = (0..3u8)
            .map(|index| {
                let path = folder.path().join(format!("{index}.jsonl"));
                let bytes = vec![b'a' + index; 1_000_000 + usize::from(index)];
                std::fs::write(&path, &bytes).unwrap();
                let mut origin = Origin::new(Lines::default(), Map::new());
                (origin.rows, origin.bytes) = (2, bytes.len() as u64);
                origin.blake3 = blake3::hash(&bytes).to_hex().to_string();
                (path, origin)
            })
            .collect();
        let join_all = |threads: usize| {
            let parts: Vec<_> = parts.iter().map(|(path, origin)| (path.as_path(), origin.clone())).collect();
            let path = folder.path().join(format!("all-{threads}.jsonl"));
            let to = (path.as_path(), Existing::Refuse);
            let joined = join(&parts, Lines::default(), Map::new(), to, (threads, &Counters::default()));
            joined.map(|origin| (origin, std::fs::read(&path).unwrap())).map_err(|error| error.to_string())
        };
        let [one, two] = [1, 2].map(|threads| join_all(threads).unwrap());
        assert!(one == two && one.0.rows == 6 && one.0.bytes == 3_000_003 && one.1.len() == 3_000_003);
        assert_eq!(one.0.blake3, blake3::hash(&one.1).to_hex().as_str());
        std::fs::remove_file(folder.path().join("all-1.jsonl")).unwrap();
        std::fs::remove_file(folder.path().join("all-2.jsonl")).unwrap();
        std::fs::write(&parts[1].0, b"changed").unwrap();
        let [one, two] = [1, 2].map(|threads| join_all(threads).unwrap_err());
        assert!(one == two && one.contains("1.jsonl: these are not the lines that were written"), "{one}");
    }
}
