//! Finds the input files: walks folders, reads lists, and sorts by the bytes of the paths.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::walk::{Skipped, Walk};
use super::{BOM, Input, SUFFIXES, suffix};
use crate::{Error, Result};

/// The longest accepted line of a list.
const MAX_LINE: usize = 1 << 16;

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
    /// Searches each of `places`: a folder, an audio file, or a text file with one path per line,
    /// relative to its own folder. Links are followed. Each folder is read once, however many links
    /// lead to it.
    ///
    /// # Errors
    /// A place does not exist or cannot be read, or nothing was found.
    pub fn find(places: &[impl AsRef<Path>]) -> Result<Self> {
        let places: Vec<PathBuf> = places.iter().map(|place| place.as_ref().to_owned()).collect();
        let mut found = Vec::new();
        let mut skipped = Skipped::default();
        for place in &places {
            let data = std::fs::metadata(place).map_err(|error| {
                Error::io(place.display(), error).with_hint("name a folder, audio files, or a list of them")
            })?;
            match data.is_dir() {
                true => {
                    let mut walk = Walk::new(place);
                    walk.run()?;
                    found.append(&mut walk.found);
                    skipped.add(walk.skipped);
                }
                false if Self::is_list(place) => read_list(place, &mut found)?,
                false => found.push(Input::new(place.file_name().unwrap_or(place.as_os_str()), place.clone())),
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            let shown: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            let left_out = skipped.lines().join("; ");
            let left_out = if left_out.is_empty() { left_out } else { format!("; {left_out}") };
            return Err(Error::invalid(format!("{}: no audio files were found{left_out}", shown.join(", ")))
                .with_hint(format!("their names end with .{}", SUFFIXES.join(", ."))));
        }
        Ok(Self { files: found.into(), skipped, places })
    }

    /// Whether `place` is a list of files by its name.
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

    /// The named places, and every file.
    pub(in crate::dataset) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(PathBuf::as_path).chain(self.files.iter().map(Input::path))
    }

    /// The files of shard `index` of `n`. Shards are contiguous, so joining them in order gives the
    /// whole; those beyond the last are empty.
    pub fn shard(&self, index: usize, n: usize) -> Range<usize> {
        let n = n.max(1);
        let bound = |i: usize| (self.files.len() as u128 * i.min(n) as u128 / n as u128) as usize;
        bound(index)..bound(index.saturating_add(1))
    }
}

fn read_list(list: &Path, found: &mut Vec<Input>) -> Result<()> {
    let failed = |error| Error::io(list.display(), error);
    let folder = list.parent().unwrap_or(Path::new(""));
    let mut reader = BufReader::new(std::fs::File::open(list).map_err(failed)?);
    let (mut line, mut is_start) = (Vec::new(), true);
    loop {
        line.clear();
        let n = std::io::Read::take(&mut reader, MAX_LINE as u64).read_until(b'\n', &mut line).map_err(failed)?;
        if n == 0 {
            return Ok(());
        }
        if n == MAX_LINE {
            return Err(Error::invalid(format!("{}: a line is longer than {MAX_LINE} bytes", list.display()))
                .with_hint("a list has one path per line"));
        }
        let text = line.strip_prefix(BOM).filter(|_| is_start).unwrap_or(&line).trim_ascii();
        is_start = false;
        if !text.is_empty() && !text.starts_with(b"#") {
            let path = Path::new(OsStr::from_bytes(text));
            found.push(Input::new(path.as_os_str(), folder.join(path)));
        }
    }
}

#[cfg(test)]
mod tests {
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
