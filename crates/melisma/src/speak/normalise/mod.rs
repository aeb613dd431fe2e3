//! Text as people write it to text as it is read aloud, in English: `$3.50` to "three dollars and fifty cents".
//!
//! A text is folded to ASCII and a few signs ([`fold`]) and read from left to right ([`reader`]). What stands at a place
//! decides which rules are tried: those of numbers, words, addresses or signs. A rule returns words and where the text
//! goes on; it looks ahead only as far as a bounded number of words or digits. The words become a [`phrase`] of letters,
//! hyphens, apostrophes and a few marks. What nobody can read is left out, and a note says so.
//!
//! The result of a text is the result of itself. `cases.txt` has a line for every rule.

mod abbreviation;
mod acronym;
mod address;
mod amount;
mod clock;
mod currency;
mod dash;
mod date;
mod description;
mod fold;
mod foot;
mod fraction;
mod initial;
mod latin;
mod number;
mod passage;
mod peek;
mod phone;
mod phrase;
mod plural;
mod reader;
mod roman;
mod symbol;
#[cfg(test)]
mod tests;
mod unit;
mod word;

pub use passage::Passages;

use fold::{Folded, fold};
use reader::{Reader, Reading};

use super::note::Note;

/// Passes over a text: the second one changes nothing but rare remains of the first.
const MAX_PASSES: usize = 4;

/// The words that a rule reads, and where the text goes on.
type Found = Option<(String, usize)>;

/// A text as it is read aloud.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Normalised {
    /// ASCII letters, apostrophes, hyphens, single spaces, and the marks `. , ? ! ; :`; empty if nothing can be read.
    pub text: String,
    /// What was left out, and what is read letter by letter for want of a better reading.
    pub notes: Vec<Note>,
}

/// Returns `text` as it is read aloud in English, in time and memory that grow with its length.
///
/// ```
/// let read = melisma::speak::normalise("Dr. Smith paid $3.50 at 10:05. \u{1f600}");
/// assert_eq!(read.text, "Doctor Smith paid three dollars and fifty cents at ten oh five.");
/// assert_eq!(read.notes[0].to_string(), "left out, because it has no reading in English: `\u{1f600}`");
/// ```
pub fn normalise(text: &str) -> Normalised {
    let Folded { chars, mut left_out } = fold(text);
    let Reading { mut text, left_out: skipped, spelled } = Reader::new(&chars).read();
    left_out.append(skipped);
    for _ in 1..MAX_PASSES {
        let again = Reader::new(&fold(&text).chars).read().text;
        if again == text {
            break;
        }
        text = again;
    }
    let notes = [Note::LeftOut(left_out), Note::Spelled(spelled)];
    let has_some = |note: &Note| !matches!(note, Note::LeftOut(none) | Note::Spelled(none) if none.is_empty());
    Normalised { text, notes: notes.into_iter().filter(has_some).collect() }
}
