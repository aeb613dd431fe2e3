//! What the listener of a text should know.

use std::fmt;

use super::normalise::Passages;

/// Something about a text or one of its pieces that its listener should know. Pieces count from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The model repeated itself, and the piece was ended.
    Repeats(usize),
    /// The model did not end, and the piece was ended after so many frames.
    Endless(usize, usize),
    /// The model ended without a frame of speech.
    Silent(usize),
    /// Nobody can read this, and it was left out of the text.
    LeftOut(Passages),
    /// This has no reading but its letters and digits, one by one.
    Spelled(Passages),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeats(at) => write!(f, "piece {}: the model repeated itself and was ended", at + 1),
            Self::Endless(at, n) => {
                write!(f, "piece {}: the model did not stop and was ended after {n} frames", at + 1)
            }
            Self::Silent(at) => write!(f, "piece {}: the model gave no speech", at + 1),
            Self::LeftOut(passages) => write!(f, "left out, because it has no reading in English: {passages}"),
            Self::Spelled(passages) => write!(f, "read letter by letter: {passages}"),
        }
    }
}
