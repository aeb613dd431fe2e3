//! The list of all input files as one file, so that every machine of a job has the same files in the
//! same order, whatever happens to the folders meanwhile.
//!
//! ```text
//! melisma-inputs 1 PLACES FILES\n
//! each place: its path, a zero byte
//! each file: the length of its name, a space, its path, a zero byte
//! BLAKE3 of everything before, 32 bytes
//! ```
//!
//! A file's name is the end of its path. Paths never contain zero bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Input;
use super::inputs::Inputs;
use super::walk::{Skipped, is_audio};
use crate::output::{self, Existing};
use crate::{Error, Result};

const MAGIC: &str = "melisma-inputs 1";
/// Bytes of the hash at the end.
const HASH: usize = 32;

impl Inputs {
    /// Lists the audio files among `names`, which will lie below `folder`. Files with other suffixes
    /// are left out.
    ///
    /// # Errors
    /// None of them is an audio file.
    pub fn within(folder: impl AsRef<Path>, names: &[PathBuf]) -> Result<Self> {
        let folder = folder.as_ref();
        let named = names.iter().filter(|name| is_audio(name));
        let mut found: Vec<Input> = named.map(|name| Input::new(name.as_os_str(), folder.join(name))).collect();
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return Err(Error::invalid("no audio files were found"));
        }
        Ok(Self { files: found.into(), skipped: Skipped::default(), places: vec![folder.to_owned()] })
    }

    /// Writes the list to `path`.
    ///
    /// # Errors
    /// The file cannot be written, or exists and may not be replaced.
    pub fn save(&self, path: impl AsRef<Path>, existing: Existing) -> Result<()> {
        let path = path.as_ref();
        let mut bytes = format!("{MAGIC} {} {}\n", self.places.len(), self.files.len()).into_bytes();
        for place in &self.places {
            bytes.extend(place.as_os_str().as_bytes());
            bytes.push(0);
        }
        for file in self.files.iter() {
            bytes.extend(format!("{} ", file.name_len()).as_bytes());
            bytes.extend(file.path().as_os_str().as_bytes());
            bytes.push(0);
        }
        let hash = blake3::hash(&bytes);
        bytes.extend(hash.as_bytes());
        output::write(path, &bytes, existing)
    }

    /// Reads a list that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path.display(), error))?;
        parse(&bytes).ok_or_else(|| {
            Error::corrupt(format!("{}: not a whole list of input files", path.display()))
                .with_hint("remove it, and start the job again")
        })
    }
}

/// Returns `None` for damaged lists.
fn parse(bytes: &[u8]) -> Option<Inputs> {
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH)?)?;
    if blake3::hash(content).as_bytes() != hash {
        return None;
    }
    let end = content.iter().position(|&byte| byte == b'\n')?;
    let header = std::str::from_utf8(&content[..end]).ok()?.strip_prefix(MAGIC)?.strip_prefix(' ')?;
    let (n_places, n_files) = header.split_once(' ')?;
    let (n_places, n_files): (usize, usize) = (n_places.parse().ok()?, n_files.parse().ok()?);
    let body = content[end + 1..].strip_suffix(&[0])?;
    let mut parts = body.split(|&byte| byte == 0);
    let places: Vec<PathBuf> = parts.by_ref().take(n_places).map(|path| OsStr::from_bytes(path).into()).collect();
    let files: Vec<Input> = parts.map(input).collect::<Option<_>>()?;
    let is_whole = places.len() == n_places && files.len() == n_files && n_files > 0;
    is_whole.then(|| Inputs { files: files.into(), skipped: Skipped::default(), places })
}

fn input(part: &[u8]) -> Option<Input> {
    let space = part.iter().position(|&byte| byte == b' ')?;
    let name_len: usize = std::str::from_utf8(&part[..space]).ok()?.parse().ok()?;
    let path = &part[space + 1..];
    let name = path.get(path.len().checked_sub(name_len)?..)?;
    Some(Input::new(OsStr::from_bytes(name), PathBuf::from(OsStr::from_bytes(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        for name in [&b"b.wav"[..], b"a\xff 1.wav", b"line\nbreak.wav", b"%41.flac"] {
            std::fs::write(folder.path().join(OsStr::from_bytes(name)), b"x").unwrap();
        }
        std::fs::write(folder.path().join("list.txt"), "sub/x.wav\n/else/where.wav\n").unwrap();
        let places = [folder.path().to_owned(), folder.path().join("list.txt")];
        let found = Inputs::find(&places).unwrap();
        let path = folder.path().join("inputs");
        found.save(&path, Existing::Refuse).unwrap();
        assert_eq!(Inputs::load(&path).unwrap(), found);
        assert!(found.save(&path, Existing::Refuse).is_err());
        let bytes = std::fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            assert!(parse(&bytes[..len]).is_none(), "cut to {len} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(parse(&damaged).is_none(), "byte {at}");
        }
    }

    #[test]
    fn names_that_are_not_audio_are_left_out() {
        let names = ["z.wav", "a/b.FLAC", "a/b.txt", "readme"].map(PathBuf::from);
        let inputs = Inputs::within(Path::new("/scratch"), &names).unwrap();
        let found: Vec<_> = inputs.files.iter().map(|file| (file.name(), file.path().to_owned())).collect();
        let expected = [("a/b.FLAC", "/scratch/a/b.FLAC"), ("z.wav", "/scratch/z.wav")];
        assert_eq!(found, expected.map(|(name, path)| (name.into(), PathBuf::from(path))));
        assert!(Inputs::within(Path::new("/scratch"), &names[2..]).is_err());
    }
}
