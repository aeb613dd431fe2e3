//! The labels of clips: the settings they were made from, and the hash of the audio.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::format::read_text;
use crate::output::{self, Existing};
use crate::{Error, Remedy, Result};

/// The key of the audio file's BLAKE3 hash.
pub(super) const HASH: &str = "audio_blake3";
/// The key of the SoundFont's, where one plays.
pub(super) const FONT_HASH: &str = "soundfont_blake3";
/// The settings of a clip; a setting that depends on another comes after it.
const MADE_OF: [&str; 9] = [
    "audio",
    "seed",
    "seconds",
    "sample_rate_hz",
    "sample_format",
    "loudness_target_lufs",
    FONT_HASH,
    "parameters",
    "score",
];
/// The largest label; a score of a million notes has a label of about 150 MB.
const MAX_BYTES: u64 = 1 << 28;

/// Checks the label in `path` against the `expected` one, and `audio` against its hash.
pub(super) fn check(path: &Path, audio: &Path, expected: &Value) -> Result<()> {
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| {
            Error::corrupt(format!("{}: {error}", path.display())).with_hint(AGAIN).or_hint(Remedy::Replace)
        })
    };
    let found = parse(&read_text(path, MAX_BYTES)?)?;
    // Both have been through text, in which a number may lose its last bit.
    let expected = parse(&expected.to_string())?;
    if let Some(key) = MADE_OF.into_iter().find(|key| found[key] != expected[key]) {
        return Err(Error::invalid(format!("{}: this clip was made with another `{key}`", path.display()))
            .with_hint("choose another folder")
            .or_hint(Remedy::Replace));
    }
    let file = File::open(audio).map_err(|error| Error::io(audio.display(), error))?;
    if found[HASH] != hash(file, audio)? {
        return Err(Error::corrupt(format!("{}: not the audio that its label names", audio.display()))
            .with_hint(AGAIN)
            .or_hint(Remedy::Replace));
    }
    Ok(())
}

const AGAIN: &str = "remove this clip and its label to have it made again";

/// Writes a label, unless an interrupted run already wrote the same one.
pub(super) fn write(path: &Path, label: &Value, existing: Existing) -> Result<()> {
    let bytes = format!("{label:#}\n").into_bytes();
    match std::fs::read(path) {
        Ok(found) if found == bytes => Ok(()),
        _ => output::write(path, &bytes, existing),
    }
}

/// Returns the hash of the whole `file`, called `name` in errors.
pub(super) fn hash(file: File, name: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut reader = file;
    let mut bytes = vec![0; 1 << 16];
    loop {
        match reader.read(&mut bytes).map_err(|error| Error::io(name.display(), error))? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&bytes[..n]),
        };
    }
}
