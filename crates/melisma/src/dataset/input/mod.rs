//! What a dataset is made from: audio files, their names in the dataset, and the texts that belong to them.

mod fields;
mod inputs;
mod listing;
mod metadata;
mod record;
mod root;
mod search;
pub(super) mod text;
mod texts;
mod walk;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use fields::Fields;
pub use inputs::Inputs;
pub use metadata::Metadata;
pub use search::Search;
pub use text::Text;
pub use texts::Texts;
pub use walk::{Names, Skipped};

/// What some editors put before a text.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";
/// Suffixes of the files that a folder search accepts.
pub(super) const SUFFIXES: &[&str] = &[
    "wav", "wave", "w64", "rf64", "bw64", "flac", "mp3", "ogg", "oga", "opus", "webm", "weba", "mka", "m4a", "mp4",
    "aac", "alac", "caf", "aif", "aiff",
];

/// One input file. A dataset may have millions, so the name is not stored apart from the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    path: Box<Path>,
    /// Where in the path the name begins.
    name_at: u32,
    /// Whether the name is the end of the path as it is, without escapes.
    is_plain: bool,
}

impl Input {
    /// Returns the file at `path`, called `shown`, which is the end of the path.
    pub(super) fn new(shown: &OsStr, path: PathBuf) -> Self {
        let is_end = path.as_os_str().as_bytes().ends_with(shown.as_bytes());
        let name_at = if is_end { path.as_os_str().len() - shown.len() } else { 0 };
        let mut input = Self { path: path.into(), name_at: name_at as u32, is_plain: false };
        input.is_plain = matches!(name(input.shown()), Cow::Borrowed(_));
        input
    }

    /// Returns the path on disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name in the dataset, relative to the folder that was searched.
    pub fn name(&self) -> Cow<'_, str> {
        name(self.shown())
    }

    /// Returns the bytes of the path that are the name.
    pub(super) fn name_len(&self) -> usize {
        self.path.as_os_str().len() - self.name_at as usize
    }

    fn shown(&self) -> &OsStr {
        OsStr::from_bytes(&self.path.as_os_str().as_bytes()[self.name_at as usize..])
    }
}

/// By the bytes of the names, then of the paths.
impl Ord for Input {
    fn cmp(&self, other: &Self) -> Ordering {
        let names = match self.is_plain && other.is_plain {
            true => self.shown().as_bytes().cmp(other.shown().as_bytes()),
            false => self.name().cmp(&other.name()),
        };
        names.then_with(|| self.path.cmp(&other.path))
    }
}

impl PartialOrd for Input {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) fn suffix(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

/// Returns a path as UTF-8. Other bytes become %XX, and so does a `%` that would look like such an
/// escape.
pub(super) fn name(path: &OsStr) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.contains(['%', '\0']) => Cow::Borrowed(text),
        _ => Cow::Owned(escape(path.as_bytes())),
    }
}

fn escape(path: &[u8]) -> String {
    let mut name = String::new();
    for chunk in path.utf8_chunks() {
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

    #[test]
    fn names_are_ends_of_paths_in_the_order_of_their_bytes() {
        let input = |shown: &[u8], folder: &str| {
            Input::new(OsStr::from_bytes(shown), Path::new(folder).join(OsStr::from_bytes(shown)))
        };
        let all = [input(b"%41.wav", "w"), input(b"a\xff.wav", "/data/w"), input("aé.wav".as_bytes(), "w/")];
        assert_eq!(all.each_ref().map(Input::name), ["%2541.wav", "a%FF.wav", "aé.wav"]);
        assert_eq!(all[1].path(), Path::new(OsStr::from_bytes(b"/data/w/a\xff.wav")));
        assert!(all.is_sorted(), "escapes sort by their own bytes");
        assert!(input(b"b.wav", "a") < input(b"b.wav", "b") && input(b"a.wav", "b") < input(b"b.wav", "a"));
    }
}
