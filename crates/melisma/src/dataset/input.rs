//! An audio file of a dataset, and its name in the dataset.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Suffixes of the files that a folder search accepts.
pub(super) const SUFFIXES: &[&str] = &[
    "wav", "wave", "w64", "rf64", "bw64", "flac", "mp3", "ogg", "oga", "m4a", "mp4", "aac", "alac", "caf", "aif",
    "aiff",
];

/// One input file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Input {
    /// The name in the dataset, relative to the folder that was searched.
    pub name: Box<str>,
    /// The path on disk.
    pub path: Box<Path>,
}

impl Input {
    pub(super) fn new(shown: &OsStr, path: PathBuf) -> Arc<Self> {
        Arc::new(Self { name: name(shown).into(), path: path.into() })
    }
}

pub(super) fn suffix(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

/// A path as UTF-8. Other bytes become %XX, and so does a `%` that would look like such an escape.
pub(super) fn name(path: &OsStr) -> String {
    let mut name = String::new();
    for chunk in path.as_bytes().utf8_chunks() {
        let text = chunk.valid();
        for (at, letter) in text.char_indices() {
            let hex = |i: usize| text.as_bytes().get(at + i).is_some_and(u8::is_ascii_hexdigit);
            match letter {
                '%' if hex(1) && hex(2) => name.push_str("%25"),
                // The column pads with zeros.
                '\0' => name.push_str("%00"),
                letter => name.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unambiguous() {
        assert_eq!(name(OsStr::from_bytes(b"a\xff/b%41%zz.wav")), "a%FF/b%2541%zz.wav");
        assert_eq!(name(OsStr::new("Grüße.wav")), "Grüße.wav");
    }
}
