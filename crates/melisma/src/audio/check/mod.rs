//! Checks that a compressed file is complete, by its own checksums, counts and lengths. Decoders
//! skip damaged parts, which shifts everything after them. Here, damage is an error that names its
//! position.

mod flac;
mod mpeg;
mod ogg;
mod watch;
mod window;
mod xing;

use std::fs::File;
use std::io::Read;

pub(super) use watch::Watch;
use window::Window;

use crate::Result;

/// The formats that are checked before they are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Flac,
    Ogg,
    Mp3,
    Adts,
}

/// Returns the format of `file`, if its first few bytes identify it.
pub(super) fn sniff(file: File) -> Result<Option<Format>> {
    let mut window = Window::new(file);
    window.pass_id3()?;
    Ok(match window.look(4)? {
        [b'f', b'L', b'a', b'C', ..] => Some(Format::Flac),
        [b'O', b'g', b'g', b'S', ..] => Some(Format::Ogg),
        _ => None,
    })
}

/// Reads all of `bytes`; returns the number of samples that it declares, if any.
pub(super) fn count_samples(format: Format, bytes: impl Read) -> Result<Option<u64>> {
    let mut window = Window::new(bytes);
    window.pass_id3()?;
    match format {
        Format::Flac => flac::count_samples(&mut window),
        Format::Ogg => ogg::count_samples(&mut window),
        Format::Mp3 => mpeg::whole_mp3(&mut window).map(|()| None),
        Format::Adts => mpeg::whole_adts(&mut window).map(|()| None),
    }
}

/// Returns whether only tags or padding zeros are left after the audio.
fn is_tail(window: &mut Window<impl Read>) -> Result<bool> {
    let bytes = window.look(16)?;
    if [&b"TAG"[..], b"APETAGEX", b"LYRICSBEGIN"].iter().any(|mark| bytes.starts_with(mark)) {
        return Ok(true);
    }
    loop {
        let bytes = window.look(window::BLOCK)?;
        let n = bytes.len();
        if n == 0 {
            return Ok(true);
        }
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        window.pass(n);
    }
}

#[cfg(test)]
mod tests;
