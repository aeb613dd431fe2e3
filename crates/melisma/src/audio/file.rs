//! Opens untrusted files.

use std::fs::File;
use std::path::Path;

use melisma_kernels::process::open_without_waiting;

use crate::{Error, Remedy, Result};

pub(super) const EXPECTED: &str = "an audio file is expected: WAV, FLAC, MP3, Ogg Vorbis, Opus, WebM, M4A, AIFF or CAF";

/// Opens `path` for reading if it is a regular file.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let file = open_without_waiting(path)
        .map_err(|error| Error::io("opening it", error).with_hint("check the name, and that you may read it"))?;
    let data = file.metadata().map_err(|error| Error::io("its kind", error))?;
    match data.is_file() {
        true if data.len() == 0 => Err(Error::truncated("the file is empty").with_hint(EXPECTED)),
        true => Ok(file),
        false if data.is_dir() => Err(Error::unsupported("this is a folder")
            .with_hint("name the audio files in it")
            .or_hint(Remedy::BuildDataset)),
        false => Err(Error::unsupported("this is not a regular file").with_hint(EXPECTED)),
    }
}

/// Returns the error for a pipe of a format whose index may follow its audio.
pub(super) fn needs_file() -> Error {
    Error::unsupported("M4A is not read from a pipe").with_hint("name the file, or send FLAC or WAV")
}
