//! Walks folders: each one is read once, whichever links lead to it, and skipped entries are
//! counted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::root::Root;
use super::{Input, SUFFIXES, suffix};
use crate::text::count;
use crate::{Error, Result};

/// The deepest nesting of folders.
const MAX_DEPTH: usize = 64;
/// Names that are listed for each reason.
const MAX_NAMES: usize = 3;
/// Suffixes of audio files in unsupported formats.
const OTHER_AUDIO: &[&str] = &[
    "3ga", "aa", "aax", "ac3", "act", "adx", "aifc", "amr", "ape", "au", "awb", "dff", "dsf", "dts", "dvf", "eac3",
    "gsm", "m4b", "m4p", "mlp", "mp1", "mp2", "mpc", "msv", "oma", "ra", "ram", "raw", "pcm", "snd", "sph", "spx",
    "tak", "thd", "tta", "voc", "vox", "wma", "wv",
];

/// A count of entries, and the first few names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The number of entries.
    pub n: u64,
    /// The first few names, in byte order.
    pub first: Vec<String>,
}

impl Names {
    fn push(&mut self, path: &Path) {
        self.add(Self { n: 1, first: vec![path.display().to_string()] });
    }

    fn add(&mut self, other: Self) {
        self.n += other.n;
        self.first.extend(other.first);
        self.first.sort_unstable();
        self.first.truncate(MAX_NAMES);
    }

    fn line(&self, what: &str) -> String {
        let more = if self.n > self.first.len() as u64 { ", ..." } else { "" };
        format!("{}: {}{more}", count(self.n, what), self.first.join(", "))
    }
}

/// Entries that were left out of folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Audio files in unsupported formats, by suffix.
    pub formats: BTreeMap<String, Names>,
    /// Folders and entries that cannot be read.
    pub unreadable: Names,
    /// Links to folders that had been read before.
    pub repeated: Names,
}

impl Skipped {
    pub(super) fn add(&mut self, other: Self) {
        for (suffix, names) in other.formats {
            self.formats.entry(suffix).or_default().add(names);
        }
        self.unreadable.add(other.unreadable);
        self.repeated.add(other.repeated);
    }

    /// Returns one line per reason.
    pub fn lines(&self) -> Vec<String> {
        let format = |(suffix, names): (&String, &Names)| names.line(&format!("unsupported .{suffix} file"));
        let mut lines: Vec<String> = self.formats.iter().map(format).collect();
        if self.unreadable.n > 0 {
            lines.push(self.unreadable.line("unreadable entry"));
        }
        if self.repeated.n > 0 {
            lines.push(self.repeated.line("repeated folder link"));
        }
        lines
    }
}

/// The files below one folder.
pub(super) struct Walk<'a> {
    root: &'a Path,
    /// What the names of files are relative to: the root, or a folder above it.
    base: &'a Path,
    pub(super) found: Vec<Input>,
    pub(super) skipped: Skipped,
    /// Devices and inodes of the folders read so far.
    seen: HashSet<(u64, u64)>,
    /// Links to folders, followed after everything that is reachable without them.
    links: BTreeSet<(PathBuf, usize)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(Root { path: root, n_named }: &'a Root) -> Self {
        let base = root.ancestors().nth(*n_named).unwrap_or(root);
        let (found, seen, links) = (Vec::new(), HashSet::new(), BTreeSet::new());
        Self { root, base, found, skipped: Skipped::default(), seen, links }
    }

    pub(super) fn run(&mut self) -> Result<()> {
        // The named folder itself must be readable.
        std::fs::read_dir(self.root).map_err(|error| Error::io(self.root.display(), error))?;
        self.folder(self.root, 0)?;
        while let Some((link, depth)) = self.links.pop_first() {
            match std::fs::metadata(&link) {
                Ok(data) if self.seen.contains(&(data.dev(), data.ino())) => self.skipped.repeated.push(&link),
                _ => self.inner(&link, depth)?,
            }
        }
        Ok(())
    }

    fn folder(&mut self, folder: &Path, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!("{}: folders lie deeper than {MAX_DEPTH}", folder.display())));
        }
        let opened = std::fs::metadata(folder).and_then(|data| Ok((data, std::fs::read_dir(folder)?)));
        let Ok((data, entries)) = opened else {
            self.skipped.unreadable.push(folder);
            return Ok(());
        };
        if !self.seen.insert((data.dev(), data.ino())) {
            return Ok(());
        }
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&entry, depth)?,
                Err(_) => self.skipped.unreadable.push(folder),
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &std::fs::DirEntry, depth: usize) -> Result<()> {
        let path = entry.path();
        let suffix = suffix(&path).map(str::to_ascii_lowercase).unwrap_or_default();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let is_folder = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => std::fs::metadata(&path).is_ok_and(|data| data.is_dir()),
            Ok(kind) => kind.is_dir(),
            Err(_) => {
                if !is_audio(&path) {
                    self.skipped.unreadable.push(&path);
                }
                false
            }
        };
        match (is_folder, is_link) {
            (true, true) => {
                self.links.insert((path, depth + 1));
            }
            (true, false) => self.inner(&path, depth + 1)?,
            // A broken link is reported as unreadable when it is opened.
            _ if is_audio(&path) => self.push(&path),
            _ if OTHER_AUDIO.contains(&suffix.as_str()) => self.skipped.formats.entry(suffix).or_default().push(&path),
            _ => {}
        }
        Ok(())
    }

    /// Walks a folder below the root. A folder that is named like an audio file and contains none
    /// is reported as unreadable when it is opened.
    fn inner(&mut self, path: &Path, depth: usize) -> Result<()> {
        let before = (self.found.len(), self.links.len());
        self.folder(path, depth)?;
        if is_audio(path) && before == (self.found.len(), self.links.len()) {
            self.push(path);
        }
        Ok(())
    }

    fn push(&mut self, path: &Path) {
        self.found.push(Input::new(path.strip_prefix(self.base).unwrap_or(path).as_os_str(), path.to_owned()));
    }
}

/// Returns whether `path` has the suffix of an audio file.
pub(super) fn is_audio(path: &Path) -> bool {
    suffix(path).is_some_and(|suffix| SUFFIXES.contains(&suffix.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crate::dataset::{Input, Inputs};

    #[test]
    fn each_folder_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("c.wav"), b"x").unwrap();
        std::fs::create_dir_all(at("z/y")).unwrap();
        for name in ["a.wav", "z/y/b.wav"] {
            std::fs::write(at(name), b"x").unwrap();
        }
        for link in ["l1", "l2", "z/l3"] {
            symlink(folder.path(), at(link)).unwrap();
        }
        symlink(at("z/y"), at("a-link-before-z")).unwrap();
        symlink(other.path(), at("o1")).unwrap();
        symlink(other.path(), at("o2")).unwrap();
        let inputs = Inputs::find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = inputs.files.iter().map(Input::name).collect();
        assert_eq!(names, ["a.wav", "o1/c.wav", "z/y/b.wav"]);
        assert_eq!(inputs.skipped.repeated.n, 5);
        assert!(inputs.skipped.lines()[0].starts_with("5 repeated folder links: "));
    }

    #[test]
    fn folders_called_like_audio_files_are_entered() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let other = tempfile::tempdir().unwrap();
        for name in ["dir.wav/deeper.FLAC", "empty.wav"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for path in [at("dir.wav/inner.wav"), at("dir.wav/deeper.FLAC/b.wav"), other.path().join("c.wav")] {
            std::fs::write(path, b"x").unwrap();
        }
        symlink(other.path(), at("link.mp3")).unwrap();
        let inputs = Inputs::find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = inputs.files.iter().map(Input::name).collect();
        assert_eq!(names, ["dir.wav/deeper.FLAC/b.wav", "dir.wav/inner.wav", "empty.wav", "link.mp3/c.wav"]);
    }

    #[test]
    fn folders_may_lie_64_deep() {
        let folder = tempfile::tempdir().unwrap();
        let deepest = folder.path().join(["d"; super::MAX_DEPTH].join("/"));
        std::fs::create_dir_all(&deepest).unwrap();
        std::fs::write(deepest.join("a.wav"), b"x").unwrap();
        assert_eq!(Inputs::find(&[folder.path().to_owned()]).unwrap().files.len(), 1);
        std::fs::create_dir(deepest.join("d")).unwrap();
        let error = Inputs::find(&[folder.path().to_owned()]).unwrap_err();
        assert!(error.to_string().ends_with("folders lie deeper than 64"), "{error}");
    }

    #[test]
    fn opus_and_matroska_are_audio() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.opus", "b.OPUS", "c.webm", "d.weba", "e.mka", "f.mkv"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let inputs = Inputs::find(&[folder.path().to_owned()]).unwrap();
        let names: Vec<_> = inputs.files.iter().map(Input::name).collect();
        assert_eq!(names, ["a.opus", "b.OPUS", "c.webm", "d.weba", "e.mka"]);
        assert_eq!(inputs.skipped.lines(), [""; 0]);
    }

    #[test]
    fn other_formats_are_counted_and_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.wav", "d.ape", "b.ape", "c.APE", "e.ape", "f.wma", "notes.txt"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        let inputs = Inputs::find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(inputs.files.len(), 1);
        let lines = inputs.skipped.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("4 unsupported .ape files: "), "{}", lines[0]);
        assert!(lines[0].contains("b.ape, ") && lines[0].contains("d.ape, ..."), "{}", lines[0]);
        assert!(lines[1].starts_with("1 unsupported .wma file: "), "{}", lines[1]);
        std::fs::remove_file(folder.path().join("a.wav")).unwrap();
        let error = Inputs::find(&[folder.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains("4 unsupported .ape files"), "{error}");
    }
}
