//! All input files, sorted by the bytes of their names.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::walk::Skipped;
use super::{Input, suffix};

/// All input files, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inputs {
    /// The files to read.
    pub files: Arc<[Input]>,
    /// Entries of folders that were left out.
    pub skipped: Skipped,
    /// The folders, files and lists that the caller named.
    pub places: Vec<PathBuf>,
}

impl Inputs {
    /// Returns whether `place` is a list of files by its name.
    pub fn is_list(place: impl AsRef<Path>) -> bool {
        let place = place.as_ref();
        matches!(suffix(place), Some("txt" | "lst" | "list"))
    }

    /// Tells this list from another one: the number of files, and a hash of their names.
    pub(in crate::dataset) fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for file in self.files.iter() {
            hasher.update(file.name().as_bytes()).update(&[0]);
        }
        format!("{} {}", self.files.len(), &hasher.finalize().to_hex()[..16])
    }

    /// Returns the named places, and every file.
    pub(in crate::dataset) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(PathBuf::as_path).chain(self.files.iter().map(Input::path))
    }

    /// Returns the files of shard `index` of `n`. Shards are contiguous, so joining them in order
    /// gives the whole; those beyond the last are empty.
    pub fn shard(&self, index: usize, n: usize) -> Range<usize> {
        let n = n.max(1);
        let bound = |i: usize| (self.files.len() as u128 * i.min(n) as u128 / n as u128) as usize;
        bound(index)..bound(index.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn folders_and_lists_are_found_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("b/x.wav")).unwrap();
        for name in ["c.WAV", "b/a.flac", "b/notes.md", "a.wav"] {
            std::fs::write(at(name), b"x").unwrap();
        }
        let all = Inputs::find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = all.files.iter().map(Input::name).collect();
        assert_eq!(names, ["a.wav", "b/a.flac", "b/x.wav", "c.WAV"]);
        std::fs::write(at("list.txt"), "\u{feff}# comment\r\n\r\nc.WAV\r\n a.wav \nabsent.wav").unwrap();
        let listed = Inputs::find(&[at("list.txt")]).unwrap();
        assert_eq!(listed.files.len(), 3);
        assert_eq!(listed.files[0].path(), at("a.wav"));
        assert!(Inputs::find(&[at("nothing")]).is_err());
        assert!(Inputs::find(&[at("b")]).is_ok());
    }

    #[test]
    fn shards_are_neighbours_and_complete() {
        let input = |i: usize| Input::new(OsStr::new(&format!("{i:03}")), PathBuf::new());
        for len in [1, 2, 7, 100] {
            let all = Inputs { files: (0..len).map(input).collect(), ..Inputs::default() };
            let joined: Vec<Input> = (0..3).flat_map(|i| all.files[all.shard(i, 3)].to_vec()).collect();
            assert_eq!(joined, *all.files);
        }
    }
}
