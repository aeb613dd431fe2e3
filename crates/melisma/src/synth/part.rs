//! Parts of a piece that are heard apart: its instruments, or the tracks of its MIDI file.

use std::sync::Arc;

use super::instrument::Instrument;
use super::midi::{Strikes, strikes};
use super::score::{Note, Score};
use crate::{Error, Result};

/// The most parts: each has effects of its own.
const MAX_PARTS: usize = 256;
/// Letters of a track's name that a part keeps.
const MAX_LETTERS: usize = 40;

/// Groups of a score's notes, for [`Performance::with_parts`](super::Performance::with_parts). Their names are fit for
/// files: letters, digits and hyphens, and no two of them are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    names: Vec<String>,
    /// The part of each note, in the order of the score.
    of: Arc<[u16]>,
}

impl Parts {
    /// Groups the notes by their instrument, in the order of [`Instrument::ALL`].
    pub fn by_instrument(score: &Score) -> Self {
        let plays = |instrument: &Instrument| score.notes.iter().any(|note| note.instrument == *instrument);
        let playing: Vec<Instrument> = Instrument::ALL.into_iter().filter(plays).collect();
        let part = |note: &Note| playing.iter().position(|one| *one == note.instrument).unwrap_or_default() as u16;
        let names = playing.iter().map(|instrument| instrument.name().to_owned()).collect();
        Self { names, of: score.notes.iter().map(part).collect() }
    }

    /// Groups the notes of [`Score::from_midi`] by the tracks of the file; those of a file of format 0, which has one
    /// track, by their channels. Names begin with the number of the track or channel, as in `02-Grand-Piano`.
    ///
    /// # Errors
    /// Those of [`Score::from_midi`]; `Unsupported` if more than 256 tracks have notes.
    pub fn by_track(midi: &[u8]) -> Result<Self> {
        let Strikes { notes, tracks, names } = strikes(midi)?;
        let mut playing = tracks.clone();
        playing.sort_unstable();
        playing.dedup();
        if playing.len() > MAX_PARTS {
            let message = format!("{} tracks have notes; at most {MAX_PARTS} can be heard apart", playing.len());
            return Err(Error::unsupported(message).with_hint("merge some of them, or take the instruments apart"));
        }
        let mut of = vec![0; notes.len()];
        for (&note, track) in notes.iter().zip(&tracks) {
            of[note as usize] = playing.binary_search(track).unwrap_or_default() as u16;
        }
        let digits = playing.last().map_or(0, |last| last.to_string().len()).max(2);
        let name = |number: &u16| {
            let said = names.get(usize::from(*number).saturating_sub(1)).map_or("", String::as_str);
            let plain = plain(said);
            format!("{number:0digits$}-{}", if plain.is_empty() { "track" } else { &plain })
        };
        Ok(Self { names: playing.iter().map(name).collect(), of: of.into() })
    }

    /// Returns the name of each part.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of notes.
    pub fn n_notes(&self) -> usize {
        self.of.len()
    }

    /// Returns the part of each note.
    pub(super) fn of(&self) -> &Arc<[u16]> {
        &self.of
    }

    /// Returns whether a note is in a part.
    pub(super) fn has(&self, part: usize, note: usize) -> bool {
        self.of.get(note).is_some_and(|of| usize::from(*of) == part)
    }
}

/// Returns the letters and digits of a name, with a hyphen for everything between.
fn plain(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").chars().take(MAX_LETTERS).collect()
}
