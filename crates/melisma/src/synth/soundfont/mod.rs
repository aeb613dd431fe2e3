//! General MIDI with a SoundFont: the voices of an `.sf2` file, on our own bus.
//!
//! A [`Sequence`] has what a [`Score`](super::Score) loses: programs, banks and every controller. A
//! [`Performance`](super::Performance) plays it with a [`SoundFont`] instead of Melisma's instruments; gain, limiter and
//! loudness are the same. A piece that moves our delay and reverb has them; any other has the reverb and the chorus that
//! its channels ask for, played by the synthesizer.
//!
//! # Why `rustysynth`?
//!
//! It is pure Rust under the MIT licence without dependencies, plays the envelopes, filters, oscillators and loops of
//! SoundFont 2, with a reverb and a chorus for all channels, and renders in blocks of 64 samples whose bits do not depend
//! on how many are asked for. It trusts sizes and tables of a file, so `check` reads them first: what is left
//! allocates no more than the file is long, a few times. A panic on what `check` does not see becomes an error.

mod check;
mod player;
mod sequence;
#[doc(hidden)]
pub mod synthetic;

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

pub(super) use player::Player;
pub use sequence::Sequence;

use crate::{Error, Result};

/// The longest file.
const MAX_BYTES: u64 = 2 << 30;
/// The most pairs of a preset's and an instrument's region that a note looks at.
const MAX_PAIRS: usize = 1 << 20;
const HINT: &str = "the file is damaged or not a SoundFont 2: make or fetch it again";

/// The samples and presets of an `.sf2` file.
#[derive(Debug, Clone)]
pub struct SoundFont {
    font: Arc<rustysynth::SoundFont>,
    /// The BLAKE3 hash of the file.
    hash: blake3::Hash,
}

impl SoundFont {
    /// Opens an `.sf2` file.
    ///
    /// # Errors
    /// It cannot be read, has more than 2 GiB, or those of [`SoundFont::read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path.display(), error).with_hint("check the name, and that you may read it");
        let mut bytes = Vec::new();
        File::open(path).map_err(failed)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            let message = format!("{}: the SoundFont has more than {MAX_BYTES} bytes", path.display());
            return Err(Error::unsupported(message).with_hint("use a smaller one"));
        }
        Self::read(&bytes).map_err(|error| error.at(path.display()))
    }

    /// Reads the bytes of an `.sf2` file.
    ///
    /// # Errors
    /// They are not SoundFont 2 with 16-bit samples, are cut off, or contradict themselves.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        check::check(bytes)?;
        let font = guarded(|| {
            let read = rustysynth::SoundFont::new(&mut &*bytes);
            read.map_err(|error| Error::corrupt(format!("SoundFont: {error}")).with_hint(HINT))
        })?;
        let most = |regions: &mut dyn Iterator<Item = usize>| regions.max().unwrap_or(0);
        let presets = most(&mut font.get_presets().iter().map(|preset| preset.get_regions().len()));
        let instruments = most(&mut font.get_instruments().iter().map(|instrument| instrument.get_regions().len()));
        if presets.saturating_mul(instruments) > MAX_PAIRS {
            let message = format!("SoundFont: a preset of {presets} regions, an instrument of {instruments}");
            return Err(Error::unsupported(message).with_hint("use a simpler SoundFont"));
        }
        Ok(Self { font: Arc::new(font), hash: blake3::hash(bytes) })
    }

    /// Returns the BLAKE3 hash of the file, which names it wherever it lies.
    pub(super) fn hash(&self) -> String {
        self.hash.to_hex().to_string()
    }

    /// Returns about how many bytes of memory reading a file of `len` bytes takes, at most.
    pub fn needed(len: u64) -> u64 {
        // The file, its samples, and the regions of a few MB.
        len.saturating_mul(2).saturating_add(32 << 20)
    }
}

/// Runs code of the crate. A file that `check` does not see through can make it panic, which becomes an error.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Error::corrupt("SoundFont: its tables contradict each other").with_hint(HINT)))
}

#[cfg(test)]
mod tests;
