//! The identity of a model: the hash of its file and of all its external data. Only the small parts
//! of the file are parsed, so this takes no longer than hashing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use super::external;
use crate::format::hash;
use crate::pack::ReadAt;
use crate::{Error, Result};

/// Limit on the nesting of graphs.
const MAX_DEPTH: usize = 32;
const WINDOW: usize = 64 << 10;

/// Hashes the model at `path` and its external data files, by name and content.
///
/// # Errors
/// The file is not a model, or its external data is outside its folder.
pub fn fingerprint(path: impl AsRef<Path>, threads: usize) -> Result<hash::Digest> {
    let path = path.as_ref();
    let (file, _) = super::open(path)?;
    let locations = locations(&file).map_err(|error| error.at(path.display()).with_hint(super::EXPECTED))?;
    let own = hash::of(&file, threads).map_err(|error| error.at(path.display()))?;
    if locations.is_empty() {
        return Ok(own);
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let base = std::fs::canonicalize(parent).map_err(|error| Error::io(parent.display(), error))?;
    let mut whole = blake3::Hasher::new_derive_key("melisma optimize model v1");
    whole.update(own.as_bytes());
    for location in locations {
        let (data, _) = external::open(&base, &location).map_err(|error| error.at(path.display()))?;
        whole.update(&(location.len() as u64).to_le_bytes()).update(location.as_bytes());
        whole.update(hash::of(&data, threads)?.as_bytes());
    }
    Ok(whole.finalize().to_hex().to_string())
}

/// Returns the external data files, as named by the model.
fn locations(file: &dyn ReadAt) -> Result<BTreeSet<String>> {
    let len = file.size()?;
    let mut walker = Walker { file, window: Vec::new(), start: 0, len, found: BTreeSet::new() };
    walker.message(Message::Model, 0..len, 0)?;
    Ok(walker.found)
}

#[derive(Clone, Copy)]
enum Message {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    /// A key of external data, and its value.
    ExternalData,
}

impl Message {
    /// Returns the kind of message in a field, if it can lead to external data.
    fn below(self, field: u64) -> Option<Self> {
        Some(match (self, field) {
            (Self::Model, 7) | (Self::Training, 1 | 2) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 20) => Self::Training,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::SparseTensor, 1 | 2) => Self::Tensor,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::SparseTensor,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Tensor, 13) => Self::ExternalData,
            _ => return None,
        })
    }
}

struct Walker<'a> {
    file: &'a dyn ReadAt,
    len: u64,
    window: Vec<u8>,
    start: u64,
    found: BTreeSet<String>,
}

impl Walker<'_> {
    fn message(&mut self, message: Message, bytes: Range<u64>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::corrupt(format!("graphs inside of graphs, more than {MAX_DEPTH} deep")));
        }
        let mut at = bytes.start;
        let (mut is_location, mut value) = (false, 0..0);
        while at < bytes.end {
            let tag = self.varint(&mut at, bytes.end)?;
            let content = match tag & 7 {
                0 => {
                    self.varint(&mut at, bytes.end)?;
                    continue;
                }
                1 => at..at.saturating_add(8),
                5 => at..at.saturating_add(4),
                2 => {
                    let len = self.varint(&mut at, bytes.end)?;
                    at..at.saturating_add(len)
                }
                _ => return Err(Error::corrupt(format!("this is not an ONNX model: byte {at}"))),
            };
            if content.end > bytes.end {
                return Err(Error::corrupt(format!(
                    "this is not an ONNX model: a field at byte {at} is longer than its message"
                )));
            }
            at = content.end;
            match (message, tag >> 3, tag & 7) {
                (Message::ExternalData, 1, 2) => is_location = self.text(content)? == "location",
                (Message::ExternalData, 2, 2) => value = content,
                (_, field, 2) => {
                    if let Some(below) = message.below(field) {
                        self.message(below, content, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        if is_location {
            let location = self.text(value)?;
            self.found.insert(location);
        }
        Ok(())
    }

    fn text(&mut self, bytes: Range<u64>) -> Result<String> {
        if bytes.end - bytes.start > 4096 {
            return Err(Error::corrupt("a file name has more than 4096 bytes"));
        }
        let text = bytes.map(|at| self.byte(at)).collect::<Result<Vec<u8>>>()?;
        String::from_utf8(text).map_err(|_| Error::corrupt("a file name is not UTF-8"))
    }

    fn varint(&mut self, at: &mut u64, end: u64) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if *at >= end {
                return Err(Error::corrupt(format!("this is not an ONNX model: it breaks off at byte {end}")));
            }
            let byte = self.byte(*at)?;
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::corrupt(format!("this is not an ONNX model: a number at byte {at} is too long")))
    }

    fn byte(&mut self, at: u64) -> Result<u8> {
        let inside = |start: u64, len: usize| at >= start && at - start < len as u64;
        if !inside(self.start, self.window.len()) {
            self.start = at;
            self.window.resize(WINDOW.min((self.len - at) as usize), 0);
            self.file.read_at(at, &mut self.window)?;
        }
        let byte = self.window.get((at - self.start) as usize).copied();
        byte.ok_or_else(|| {
            Error::corrupt(format!("the file ends at byte {at}; it had {} when it was opened", self.len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn model(location: &str, depth: usize) -> Vec<u8> {
        let place = [field(1, b"location"), field(2, location.as_bytes())].concat();
        let mut graph = field(5, &field(13, &place));
        for _ in 0..depth {
            graph = field(1, &field(5, &field(6, &graph)));
        }
        field(7, &graph)
    }

    #[test]
    fn locations_are_found_at_any_depth() {
        assert_eq!(locations(&model("w.bin", 0)).unwrap(), BTreeSet::from(["w.bin".to_owned()]));
        assert_eq!(locations(&model("a/b", 3)).unwrap(), BTreeSet::from(["a/b".to_owned()]));
        let graph = &model("f", 1)[2..];
        let node = field(5, &field(6, graph));
        for function in [field(7, &node), field(11, &field(6, graph))] {
            let mut bytes = vec![0xca, 0x01, function.len() as u8];
            bytes.extend(function);
            assert_eq!(locations(&bytes).unwrap(), BTreeSet::from(["f".to_owned()]), "in a function");
        }
        assert!(locations(&Vec::new()).unwrap().is_empty());
        assert!(locations(&b"RIFF....WAVE".to_vec()).is_err());
        let whole = model("w.bin", 1);
        for len in 0..whole.len() {
            let _ = locations(&whole[..len].to_vec());
        }
    }

    #[test]
    fn external_data_is_part_of_the_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, model("w.bin", 0)).unwrap();
        assert!(fingerprint(&path, 1).is_err(), "its data is missing");
        std::fs::write(folder.path().join("w.bin"), b"one").unwrap();
        let one = fingerprint(&path, 2).unwrap();
        std::fs::write(folder.path().join("w.bin"), b"two").unwrap();
        assert_ne!(one, fingerprint(&path, 2).unwrap());
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("m.onnx"), model("w.bin", 0)).unwrap();
        std::fs::write(elsewhere.path().join("w.bin"), b"one").unwrap();
        assert_eq!(one, fingerprint(elsewhere.path().join("m.onnx"), 1).unwrap(), "a moved model is the same");
        std::fs::write(&path, model("../w.bin", 0)).unwrap();
        assert!(fingerprint(&path, 1).unwrap_err().to_string().contains("leads out"));
    }
}
