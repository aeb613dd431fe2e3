//! A text to the prompts of its sentences.

use super::format::{Format, Tokens};
use super::normalise::Normalised;
use super::note::Note;
use super::sentence;
use super::tokenizer::Tokenizer;
use crate::{Error, Result};

/// The most bytes of a text, some days of speech.
pub const MAX_TEXT: usize = 16 << 20;
/// Characters of a piece of a text: about 20 seconds of speech.
pub const PIECE_CHARS: usize = 300;
/// Frames of any piece, about five seconds, and further ones for each character: three times of what people need.
const PIECE_FRAMES: usize = 60;
const DIGIT_FRAMES: usize = 8;
const BYTE_FRAMES: usize = 2;

/// A size of pieces.
pub(super) struct Size {
    /// Tokens of the prompt.
    pub(super) n_prompt: usize,
    pub(super) n_frames: usize,
}

/// A piece of letters and a few marks, with some characters to a token.
pub(super) const PLAIN_PIECE: Size = Size { n_prompt: PIECE_CHARS, n_frames: PIECE_FRAMES + BYTE_FRAMES * PIECE_CHARS };
/// The longest piece: digits, or characters of four bytes, each a token.
pub(super) const LONGEST_PIECE: Size =
    Size { n_prompt: 5 * PIECE_CHARS, n_frames: PIECE_FRAMES + DIGIT_FRAMES * PIECE_CHARS };

/// The prompts of a text, and the seed of its speech.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub(super) prompts: Vec<Prompt>,
    pub(super) seed: u64,
    /// What its listener should know before it is spoken.
    pub(super) notes: Vec<Note>,
}

/// The prompt of a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) tokens: Vec<u32>,
    /// The speech is ended here if it does not end itself.
    pub(super) max_frames: usize,
}

/// What turns texts into prompts.
pub(super) struct Writer<'a> {
    pub(super) format: &'a Format,
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) tokens: Tokens,
    /// The most tokens of a prompt and its speech.
    pub(super) context: usize,
}

impl Script {
    /// Returns the number of pieces that are spoken one after the other.
    pub fn n_pieces(&self) -> usize {
        self.prompts.len()
    }

    /// Returns the tokens of all prompts.
    pub fn n_tokens(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.tokens.len()).sum()
    }

    /// Returns the frames of all pieces if each is spoken up to its limit.
    pub(super) fn max_frames(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.max_frames).sum()
    }

    /// Returns the tokens of the longest prompt and its speech.
    pub(super) fn need(&self, n_slots: usize) -> usize {
        self.prompts.iter().map(|prompt| prompt.need(n_slots)).max().unwrap_or(0)
    }
}

impl Prompt {
    pub(super) fn need(&self, n_slots: usize) -> usize {
        self.tokens.len() + self.max_frames * n_slots
    }
}

impl Writer<'_> {
    /// Returns the prompts of `text`, cut at its sentences, and what its listener should know.
    pub(super) fn prompts(&self, text: &str, voice: &str) -> Result<(Vec<Prompt>, Vec<Note>)> {
        if text.len() > MAX_TEXT {
            let message = format!("the text has {} bytes; at most {MAX_TEXT} are spoken", text.len());
            return Err(Error::invalid(message).with_hint("cut it into several texts"));
        }
        let Normalised { text, notes } = self.format.read(text);
        if !text.contains(char::is_alphanumeric) {
            let message = match (&notes[..], text.trim()) {
                ([note, ..], _) => format!("the text has no word to speak: {note}"),
                (_, "") => "the text is empty".to_owned(),
                _ => "the text has no word to speak".to_owned(),
            };
            return Err(Error::invalid(message).with_hint("give a text with letters or digits"));
        }
        let mut prompts = Vec::new();
        for piece in sentence::cut(&text, PIECE_CHARS) {
            self.add(&piece, voice, &mut prompts)?;
        }
        Ok((prompts, notes))
    }

    /// Adds the prompt of a piece, or those of its parts if the context is too small for the whole.
    fn add(&self, piece: &str, voice: &str, prompts: &mut Vec<Prompt>) -> Result<()> {
        // Marks alone would be spoken as anything; they belong to no word.
        if !piece.contains(char::is_alphanumeric) {
            return Ok(());
        }
        let tokens = self.format.prompt(self.tokenizer, voice, piece)?;
        if let Some(token) = tokens.iter().find(|token| **token >= self.tokens.n_tokens) {
            let message = format!("the tokenizer has the token {token}; the model has {}", self.tokens.n_tokens);
            return Err(Error::corrupt(message).with_hint("the model and its tokenizer.json must belong together"));
        }
        let prompt = Prompt { tokens, max_frames: max_frames(piece) };
        if prompt.need(self.tokens.n_slots as usize) <= self.context {
            prompts.push(prompt);
            return Ok(());
        }
        let n_chars = piece.chars().count();
        if n_chars == 1 {
            let message = format!("a context of {} tokens is too small for speech", self.context);
            return Err(Error::unsupported(message));
        }
        sentence::cut(piece, n_chars.div_ceil(2)).iter().try_for_each(|part| self.add(part, voice, prompts))
    }
}

/// Returns the frames after which the speech of a piece is ended. Digits are spoken as whole words, and other scripts
/// have more sound in a character.
fn max_frames(piece: &str) -> usize {
    let frames = |letter: char| if letter.is_ascii_digit() { DIGIT_FRAMES } else { BYTE_FRAMES * letter.len_utf8() };
    PIECE_FRAMES + piece.chars().map(frames).sum::<usize>()
}
