//! Tokens from a language model, a file or a pipe to whole frames of codes, with an account of every token.
//!
//! | format | content |
//! |---|---|
//! | orpheus | text with `<custom_token_N>` anywhere in it: N = 10 + 4096 · slot + code |
//! | ids | integers with whitespace between them: vocabulary ids, 128256 + N |
//! | codes | JSON `[[level 0], …]`, `.npy` of `[frames, slots]`, `.safetensors` with `codes.0`, `codes.1`, … |
//!
//! The number contains the slot, so a lost or foreign token spoils one frame and not those after it.
//!
//! ```
//! use melisma::snac::Config;
//! use melisma::snac::tokens::{Format, Reader};
//! let mut reader = Reader::new(Format::Auto, &Config::snac_24khz())?;
//! let none = reader.push(b"data: <custom_token_10><custom_token_4107><custom_token_8204> ...")?;
//! let one = reader.push(b"<custom_token_12301><custom_token_16398><custom_token_20495><custom_token_24592>")?;
//! assert_eq!((none.n_frames(), one.frames().as_slice()), (0, &[0, 1, 2, 3, 4, 5, 6][..]));
//! assert_eq!(reader.finish()?.n_frames(), 0);
//! assert_eq!(reader.ledger().accepted, 7);
//! # Ok::<(), melisma::Error>(())
//! ```

mod detect;
mod file;
mod format;
mod ledger;
mod scan;
mod write;

pub use format::Format;
pub(crate) use ledger::Assembler;
pub use ledger::Ledger;
pub use write::{Text, to_ids, to_json, to_npy, to_orpheus, to_safetensors};

use super::codes::{Codes, in_codebook};
use super::config::Config;
use super::model::Model;
use crate::{Error, Result};
use detect::{Detected, detect};
use scan::{Scanner, Token};

/// Numbers below 10 are control tokens.
pub(crate) const FIRST_TOKEN: i64 = 10;
/// Codes per slot in the numbering of Orpheus.
pub(crate) const SLOT_CODES: i64 = 4096;
/// The vocabulary id of `<custom_token_0>`.
pub(crate) const FIRST_ID: i64 = 128_256;
/// Formats that cannot be read piece by piece are held in memory, up to this length.
const MAX_FILE_LEN: usize = 256 << 20;

/// Which model made the tokens, as far as they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The model asked about.
    Same,
    /// They do not say. With the codebooks of another model they sound like noise.
    Unknown,
}

/// Reads tokens as bytes arrive. For orpheus and ids its memory is bounded, however long the stream.
#[derive(Debug)]
pub struct Reader {
    config: Config,
    input: Input,
    assembler: Assembler,
    stamp: Option<String>,
}

#[derive(Debug)]
enum Input {
    Undecided(Vec<u8>),
    Text(Scanner),
    File(Vec<u8>),
}

impl Reader {
    /// Creates a reader of `format` for a model's frames.
    ///
    /// # Errors
    /// `Unsupported` for orpheus and ids when the model's frames do not have their seven slots.
    pub fn new(format: Format, config: &Config) -> Result<Self> {
        let input = match format {
            Format::Auto => Input::Undecided(Vec::new()),
            Format::Orpheus => Input::Text(Scanner::tags()),
            Format::Ids => Input::Text(Scanner::words()),
            Format::Codes => Input::File(Vec::new()),
        };
        if matches!(input, Input::Text(_)) {
            check_orpheus(config)?;
        }
        let assembler = Assembler::new(config.n_slots());
        Ok(Self { config: config.clone(), input, assembler, stamp: None })
    }

    /// Returns the account of the tokens read so far.
    pub fn ledger(&self) -> Ledger {
        self.assembler.ledger()
    }

    /// Returns the hash of the model that made the tokens, where they say so.
    pub fn stamp(&self) -> Option<&str> {
        self.stamp.as_deref()
    }

    /// Compares the stamp with a model.
    ///
    /// # Errors
    /// `InvalidArgument` when the tokens were made by another model.
    pub fn origin(&self, model: &Model) -> Result<Origin> {
        match self.stamp() {
            None => Ok(Origin::Unknown),
            Some(stamp) => model.check_stamp(stamp).map(|()| Origin::Same),
        }
    }

    /// Returns whether tokens without a stamp go to the built-in model: they are probably of another codec, and sound
    /// like noise.
    pub fn is_doubtful(&self, model: &Model) -> bool {
        model.is_builtin() && self.stamp.is_none() && self.ledger().frames > 0
    }

    /// Returns the format as given or found; `Auto` while it is not known yet.
    pub fn format(&self) -> Format {
        match &self.input {
            Input::Undecided(_) => Format::Auto,
            Input::Text(scanner) => scanner.format(),
            Input::File(_) => Format::Codes,
        }
    }

    /// Takes bytes, gives the frames that became complete.
    ///
    /// # Errors
    /// `Unsupported` when a list of codes passes 256 MiB, or the format found does not fit the model.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Codes> {
        let _span = tracing::info_span!("tensor_validation", bytes = bytes.len() as u64).entered();
        let mut frames = Vec::new();
        self.read(bytes, &mut frames)?;
        Ok(Codes::valid(&self.config, frames))
    }

    fn read(&mut self, bytes: &[u8], frames: &mut Vec<i32>) -> Result<()> {
        match &mut self.input {
            Input::Undecided(seen) => {
                // The detector looks at the first bytes only; the format it chooses reads the others.
                let (now, later) = bytes.split_at(bytes.len().min(detect::MAX_LEN.saturating_sub(seen.len())));
                seen.extend_from_slice(now);
                let Some(detected) = detect(seen) else { return Ok(()) };
                self.decide(detected, frames)?;
                self.read(later, frames)
            }
            Input::Text(scanner) => {
                let (assembler, stamp, config) = (&mut self.assembler, &mut self.stamp, &self.config);
                scanner.push(bytes, |token| offer(assembler, stamp, config, token, frames));
                Ok(())
            }
            Input::File(seen) => {
                if seen.len() + bytes.len() > MAX_FILE_LEN {
                    return Err(Error::unsupported(format!("a list of codes of more than {MAX_FILE_LEN} bytes"))
                        .with_hint("use orpheus or ids, which are read piece by piece"));
                }
                seen.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Ends the input: gives the frames that can still be completed.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` when a list of codes is malformed; `Unsupported` as for [`Reader::push`].
    pub fn finish(&mut self) -> Result<Codes> {
        let _span = tracing::info_span!("tensor_validation").entered();
        let mut frames = Vec::new();
        self.end(&mut frames)?;
        Ok(Codes::valid(&self.config, frames))
    }

    fn end(&mut self, frames: &mut Vec<i32>) -> Result<()> {
        if let Input::Undecided(seen) = &self.input {
            let detected = detect::at_end(seen);
            self.decide(detected, frames)?;
        }
        match &mut self.input {
            Input::Undecided(_) => {}
            Input::Text(scanner) => {
                let (assembler, stamp, config) = (&mut self.assembler, &mut self.stamp, &self.config);
                scanner.finish(|token| offer(assembler, stamp, config, token, frames));
            }
            Input::File(seen) => {
                let list = file::read(&std::mem::take(seen), &self.config)?;
                list.each_slot(&self.config, |slot, code| match valid(&self.config, code) {
                    Some(code) => self.assembler.offer(slot, code, frames),
                    None => self.assembler.reject(),
                });
                self.stamp = list.stamp;
            }
        }
        self.assembler.finish(frames);
        Ok(())
    }

    fn decide(&mut self, detected: Detected, frames: &mut Vec<i32>) -> Result<()> {
        let next = match detected {
            Detected::Tags => Input::Text(Scanner::tags()),
            Detected::Words => Input::Text(Scanner::words()),
            Detected::File => Input::File(Vec::new()),
        };
        if matches!(next, Input::Text(_)) {
            check_orpheus(&self.config)?;
        }
        if let Input::Undecided(seen) = std::mem::replace(&mut self.input, next) {
            self.read(&seen, frames)?;
        }
        Ok(())
    }
}

fn offer(
    assembler: &mut Assembler,
    stamp: &mut Option<String>,
    config: &Config,
    token: Token<'_>,
    frames: &mut Vec<i32>,
) {
    let number = match token {
        Token::Number(number) => number - FIRST_TOKEN,
        Token::Id(id) => id - FIRST_ID - FIRST_TOKEN,
        Token::Malformed => -1,
        Token::Stamp(text) => return *stamp = Some(text.to_owned()),
    };
    let code = valid(config, number.rem_euclid(SLOT_CODES)).filter(|_| (0..7 * SLOT_CODES).contains(&number));
    match code {
        Some(code) => assembler.offer((number / SLOT_CODES) as usize, code, frames),
        None => assembler.reject(),
    }
}

fn valid(config: &Config, code: i64) -> Option<i32> {
    i32::try_from(code).ok().filter(|&code| in_codebook(config, code))
}

/// Checks that frames of a model have the seven slots of Orpheus.
///
/// # Errors
/// `Unsupported` for other strides than 4, 2, 1.
pub fn check_orpheus(config: &Config) -> Result<()> {
    check_orpheus_strides(&config.vq_strides)
}

/// Works like [`check_orpheus`].
pub(crate) fn check_orpheus_strides(strides: &[usize]) -> Result<()> {
    if strides == [4, 2, 1] {
        return Ok(());
    }
    Err(Error::unsupported(format!("orpheus tokens for a model with strides {strides:?}; they need [4, 2, 1]"))
        .with_hint("give the codes as JSON, .npy or .safetensors"))
}

#[cfg(test)]
mod tests;
