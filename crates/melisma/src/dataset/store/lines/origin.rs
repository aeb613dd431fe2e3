//! What a file of lines was made from. Lines have no attributes, so a small file beside them has
//! those of the rows, and the hash of the lines.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Lines;
use crate::dataset::failure::Failure;
use crate::dataset::store::paths::origin_of;
use crate::output::{self, Existing};
use crate::{Error, ErrorKind, Remedy, Result};

const FORMAT: &str = "melisma-lines";
/// The most bytes of a file that is read as an origin.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes of lines that are hashed at once.
const BLOCK: usize = 1 << 18;

/// What a file of lines was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    format: String,
    /// How the lines were written.
    pub lines: Lines,
    /// The lines of the file.
    pub rows: u64,
    /// The size of the file.
    pub bytes: u64,
    /// The BLAKE3 of the file.
    pub blake3: String,
    /// The attributes that a dataset of the same rows has.
    pub attributes: Map<String, Value>,
}

impl Origin {
    pub(super) fn new(lines: Lines, attributes: Map<String, Value>) -> Self {
        Self { format: FORMAT.to_owned(), lines, rows: 0, bytes: 0, blake3: String::new(), attributes }
    }

    /// Reads what the lines at `path` were made from.
    ///
    /// # Errors
    /// The file `PATH.origin.json` is missing, or is not one of these.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        File::open(path).map_err(|error| Error::io(path.display(), error))?;
        let origin = origin_of(path);
        Self::parse(&origin).map_err(|error| {
            Error::new(error.kind(), format!("{error}; lines alone do not tell what they were made from"))
                .with_hint("keep it beside the lines")
                .or_hint("read the lines as JSON")
        })
    }

    /// Reads the file that [`origin_of`] names.
    pub(in crate::dataset) fn parse(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let mut text = Vec::new();
        File::open(path).map_err(failed)?.take(MAX_BYTES).read_to_end(&mut text).map_err(failed)?;
        let found: Option<Self> = serde_json::from_slice(&text).ok();
        found
            .filter(|origin| origin.format == FORMAT)
            .ok_or_else(|| Error::corrupt(format!("{}: this does not describe lines", path.display())))
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|error| Error::invalid(error.to_string()))?;
        output::write(&origin_of(path), (text + "\n").as_bytes(), Existing::Replace)
    }

    /// Returns whether the plan and the form of the lines are these.
    pub(in crate::dataset) fn is_of(&self, lines: Lines, plan: &str) -> bool {
        self.lines == lines && self.attributes.get("plan").and_then(Value::as_str) == Some(plan)
    }

    /// Checks that every byte of the lines at `path` is the one that was written.
    ///
    /// # Errors
    /// [`ErrorKind::Check`] if one is not, and errors of reading.
    pub fn check(&self, path: impl AsRef<Path>) -> Result<()> {
        self.read(path.as_ref(), |_| Ok(()))
    }

    /// Gives the bytes of the lines at `path` to `each`, and checks them at the end.
    pub(in crate::dataset) fn read(&self, path: &Path, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut file = File::open(path).map_err(failed)?;
        let (mut hash, mut n_bytes, mut buffer) = (blake3::Hasher::new(), 0, vec![0; BLOCK]);
        loop {
            let n = file.read(&mut buffer).map_err(failed)?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
            n_bytes += n as u64;
            each(&buffer[..n])?;
        }
        let found = hash.finalize().to_hex();
        if (n_bytes, found.as_str()) == (self.bytes, &self.blake3) {
            return Ok(());
        }
        let what = match n_bytes == self.bytes {
            true => "their bytes have changed".to_owned(),
            false => format!("{n_bytes} bytes are there, {} were written", self.bytes),
        };
        Err(Error::new(
            ErrorKind::Check,
            format!("{}: these are not the lines that were written: {what}", path.display()),
        )
        .with_hint(Remedy::StartOver))
    }
}

/// Returns the lines at `path` whose signal-to-noise ratio is below `least`.
pub(in crate::dataset) fn below_limit(path: &Path, least: f64) -> Result<Vec<Failure>> {
    #[derive(Deserialize)]
    struct Line {
        path: String,
        snr_db: Option<f32>,
    }
    let file = File::open(path).map_err(|error| Error::io(path.display(), error))?;
    let mut found = Vec::new();
    for line in serde_json::Deserializer::from_reader(BufReader::new(file)).into_iter::<Line>() {
        let line = line.map_err(|error| Error::corrupt(format!("{}: {error}", path.display())))?;
        found.extend(line.snr_db.and_then(|snr_db| Failure::below(line.path, snr_db, least)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_and_other_files_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let blake3 = blake3::hash(b"{}\n").to_hex().to_string();
        let origin = Origin { rows: 1, bytes: 3, blake3, ..Origin::new(Lines::default(), Map::new()) };
        std::fs::write(&path, b"{}\n").unwrap();
        assert!(Origin::open(&path).unwrap_err().to_string().contains("lines alone"));
        origin.write(&path).unwrap();
        assert_eq!(Origin::open(&path).unwrap(), origin);
        origin.check(&path).unwrap();
        for (content, word) in [(&b"{]\n"[..], "bytes have changed"), (b"{}\n{}\n", "6 bytes are there, 3 were")] {
            std::fs::write(&path, content).unwrap();
            let error = origin.check(&path).unwrap_err();
            assert!(error.kind() == ErrorKind::Check && error.to_string().contains(word), "{error}");
        }
        std::fs::write(origin_of(&path), b"{\"format\":\"mine\"}").unwrap();
        assert!(Origin::open(&path).is_err());
    }
}
