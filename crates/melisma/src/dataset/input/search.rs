//! Where input files are looked for.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::inputs::Inputs;
use super::root::roots;
use super::walk::{Skipped, Walk};
use super::{BOM, Input, SUFFIXES};
use crate::{Error, Result};

/// The longest accepted line of a list.
const MAX_LINE: usize = 1 << 16;

/// Where input files are looked for.
///
/// ```
/// use melisma::dataset::Search;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # std::fs::write(folder.path().join("a.wav"), b"x").unwrap();
/// # std::fs::write(folder.path().join("names"), b"a.wav\n").unwrap();
/// # let (list, root) = (folder.path().join("names"), folder.path().to_owned());
/// let inputs = Search::new(&[] as &[&str]).with_list(list).with_root(root).run()?;
/// assert_eq!(inputs.files[0].name(), "a.wav");
/// # Ok::<(), melisma::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Search {
    places: Vec<PathBuf>,
    list: Option<PathBuf>,
    root: Option<PathBuf>,
}

impl Search {
    /// Searches each of `places`: a folder, an audio file, or a text file with one path per line. Links are followed.
    /// Each folder is read once, however many links lead to it. If there are several folders, the names of their files
    /// begin with the last part of the folder's path, or with more parts where these are equal.
    pub fn new(places: &[impl AsRef<Path>]) -> Self {
        Self { places: places.iter().map(|place| place.as_ref().to_owned()).collect(), list: None, root: None }
    }

    /// Adds a file with one path per line, whatever its name; `-` is stdin.
    #[must_use]
    pub fn with_list(mut self, list: impl Into<Option<PathBuf>>) -> Self {
        self.list = list.into();
        self
    }

    /// Sets the folder that relative paths in lists begin at. Without one it is the list's own; that of stdin is the
    /// current one.
    #[must_use]
    pub fn with_root(mut self, root: impl Into<Option<PathBuf>>) -> Self {
        self.root = root.into();
        self
    }

    /// Finds the files.
    ///
    /// # Errors
    /// A place does not exist or cannot be read, or nothing was found.
    pub fn run(self) -> Result<Inputs> {
        let (mut found, mut skipped, mut folders) = (Vec::new(), Skipped::default(), Vec::new());
        for place in &self.places {
            let data = std::fs::metadata(place).map_err(|error| {
                Error::io(place.display(), error).with_hint("name a folder, audio files, or a list of them")
            })?;
            match data.is_dir() {
                true => folders.push(place.clone()),
                false if Inputs::is_list(place) => self.read_file(place, &mut found)?,
                false => found.push(Input::new(place.file_name().unwrap_or(place.as_os_str()), place.clone())),
            }
        }
        for root in &roots(&folders) {
            let mut walk = Walk::new(root);
            walk.run()?;
            found.append(&mut walk.found);
            skipped.add(walk.skipped);
        }
        let mut places = self.places.clone();
        match &self.list {
            Some(list) if list.as_os_str() == "-" => {
                let folder = self.root.as_deref().unwrap_or(Path::new(""));
                read_list(std::io::stdin().lock(), (Path::new("stdin"), folder), &mut found)?;
            }
            Some(list) => {
                self.read_file(list, &mut found)?;
                places.push(list.clone());
            }
            None => {}
        }
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return Err(self.nothing(&skipped));
        }
        Ok(Inputs { files: found.into(), skipped, places })
    }

    fn read_file(&self, list: &Path, found: &mut Vec<Input>) -> Result<()> {
        let file = std::fs::File::open(list).map_err(|error| Error::io(list.display(), error))?;
        let own = list.parent().unwrap_or(Path::new(""));
        read_list(BufReader::new(file), (list, self.root.as_deref().unwrap_or(own)), found)
    }

    fn nothing(&self, skipped: &Skipped) -> Error {
        let places = self.places.iter().chain(&self.list);
        let shown: Vec<String> = places.map(|place| place.display().to_string()).collect();
        let left_out = skipped.lines().join("; ");
        let left_out = if left_out.is_empty() { left_out } else { format!("; {left_out}") };
        Error::invalid(format!("{}: no audio files were found{left_out}", shown.join(", ")))
            .with_hint(format!("their names end with .{}", SUFFIXES.join(", .")))
    }
}

impl Inputs {
    /// Searches each of `places` as [`Search`] does.
    ///
    /// # Errors
    /// A place does not exist or cannot be read, or nothing was found.
    pub fn find(places: &[impl AsRef<Path>]) -> Result<Self> {
        Search::new(places).run()
    }
}

/// Adds the files of a list whose relative paths begin at `folder`.
fn read_list(mut reader: impl BufRead, (list, folder): (&Path, &Path), found: &mut Vec<Input>) -> Result<()> {
    let failed = |error| Error::io(list.display(), error);
    let (mut line, mut is_start) = (Vec::new(), true);
    loop {
        line.clear();
        let n = Read::take(&mut reader, MAX_LINE as u64).read_until(b'\n', &mut line).map_err(failed)?;
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
            let path = Path::new(std::ffi::OsStr::from_bytes(text));
            found.push(Input::new(path.as_os_str(), folder.join(path)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(inputs: &Inputs) -> Vec<String> {
        inputs.files.iter().map(|file| file.name().into_owned()).collect()
    }

    #[test]
    fn rows_of_several_folders_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a/wavs/x.wav", "b/wavs/x.wav", "b/wavs/in/y.wav", "c/x.wav", "x.wav"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), b"x").unwrap();
        }
        let of = |places: &[&str]| Inputs::find(&places.iter().map(|place| at(place)).collect::<Vec<_>>()).unwrap();
        assert_eq!(names(&of(&["b/wavs"])), ["in/y.wav", "x.wav"]);
        assert_eq!(names(&of(&["b/wavs", "x.wav", "b/wavs/"])), ["in/y.wav", "x.wav", "x.wav"]);
        assert_eq!(names(&of(&["b/wavs", "c"])), ["c/x.wav", "wavs/in/y.wav", "wavs/x.wav"]);
        let both = of(&["b/wavs", "a/wavs", "c"]);
        assert_eq!(names(&both), ["a/wavs/x.wav", "b/wavs/in/y.wav", "b/wavs/x.wav", "c/x.wav"]);
        assert_eq!(both.files[0].path(), at("a/wavs/x.wav"));
    }

    #[test]
    fn lists_begin_at_their_folder_or_at_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("lists")).unwrap();
        std::fs::write(at("lists/names"), "sub/a.wav\n/abs/b.wav\n").unwrap();
        std::fs::copy(at("lists/names"), at("lists/names.txt")).unwrap();
        let none: &[&str] = &[];
        let paths = |search: Search| -> Vec<PathBuf> {
            search.run().unwrap().files.iter().map(|file| file.path().to_owned()).collect()
        };
        let listed = Search::new(none).with_list(at("lists/names"));
        assert_eq!(paths(listed.clone()), [PathBuf::from("/abs/b.wav"), at("lists/sub/a.wav")]);
        assert_eq!(paths(listed.with_root(at("other"))), [PathBuf::from("/abs/b.wav"), at("other/sub/a.wav")]);
        let place = Search::new(&[at("lists/names.txt")]).with_root(at("other"));
        assert_eq!(paths(place), [PathBuf::from("/abs/b.wav"), at("other/sub/a.wav")]);
        let error = Search::new(none).with_list(at("absent")).run().unwrap_err();
        assert!(error.to_string().contains("absent: "), "{error}");
    }
}
