//! How a language model wants its texts and writes its speech: Orpheus' way, or that of a `speak.yaml` or of the
//! settings.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use super::normalise::{Normalised, normalise};
use super::tokenizer::Tokenizer;
use crate::format::from_yaml;
use crate::llama::{Sample, Source};
use crate::{Error, Remedy, Result, snac};

/// The file beside a model that describes it.
pub const FILE_NAME: &str = "speak.yaml";
const MAX_FILE: u64 = 1 << 20;
const ORPHEUS_VOICES: [&str; 8] = ["tara", "leah", "jess", "leo", "dan", "mia", "zac", "zoe"];
/// The id of `<custom_token_0>` in Orpheus' vocabulary.
const ORPHEUS_CUSTOM: u32 = 128_256;
const TEXT: &str = "{text}";
const VOICE: &str = "{voice}";

/// The format of a model's prompts and speech. Every key is one of `speak.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// Names of the voices, the default one first.
    #[serde(default)]
    pub voices: Vec<String>,
    /// What the tokenizer gets, with `{text}` and, if there are voices, `{voice}`.
    #[serde(default = "prompt")]
    pub prompt: String,
    /// Tokens before those of the prompt.
    #[serde(default)]
    pub before: Vec<u32>,
    /// Tokens after those of the prompt.
    #[serde(default)]
    pub after: Vec<u32>,
    /// The token of code 0 in slot 0. The other codes of the slot follow, then those of the other slots.
    pub speech: u32,
    /// The token that ends the speech.
    pub end: u32,
    /// The hash of the codec that the model was trained with.
    pub codec: Option<String>,
    /// Codes of a slot, where they must be those of a certain codec.
    #[serde(skip)]
    pub(super) slot_codes: Option<usize>,
    pub(super) repetition_penalty: Option<f32>,
    pub(super) penalty_window: Option<usize>,
    pub(super) temperature: Option<f32>,
    pub(super) top_k: Option<usize>,
    pub(super) top_p: Option<f32>,
    pub(super) min_p: Option<f32>,
    /// Whether texts are read by [`normalise`](super::normalise()) first, so that the model sees words alone.
    pub(super) normalise: Option<bool>,
}

fn prompt() -> String {
    format!("{VOICE}: {TEXT}")
}

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The sampler's numbers.
    pub sample: Sample,
    /// Tokens of the past that the repetition penalty looks at; `usize::MAX` for all.
    pub penalty_window: usize,
    /// Which tokens can be drawn.
    pub draw: Draw,
}

/// Which tokens can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// Those of the frame's current slot, and the end between frames. No frame is ever lost.
    Frames,
    /// All, as general servers of language models do. Tokens that belong to no frame are left out.
    Free,
}

/// Where the speech of a model is in its vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) speech: u32,
    pub(super) end: u32,
    pub(super) n_slots: u32,
    pub(super) slot_codes: u32,
    pub(super) n_tokens: u32,
}

impl Tokens {
    /// Returns the tokens of a slot.
    pub(super) fn slot(&self, slot: u32) -> Range<u32> {
        let first = self.speech + slot * self.slot_codes;
        first..first + self.slot_codes
    }

    /// Returns slot and code of a token of speech.
    pub(super) fn code(&self, token: u32) -> Option<(usize, i32)> {
        let number = token.checked_sub(self.speech).filter(|number| *number < self.n_slots * self.slot_codes)?;
        Some(((number / self.slot_codes) as usize, (number % self.slot_codes) as i32))
    }
}

impl Format {
    /// Returns the format that a model has of its own: that of the `speak.yaml` in its folder, else Orpheus' if the
    /// tokenizer is his.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn find(folder: &Path, source: &Source<'_>, tokenizer: &Tokenizer) -> Result<Option<Self>> {
        if source.has(FILE_NAME) {
            let own = Self::from_yaml(&source.text(FILE_NAME, MAX_FILE)?);
            return own.map(Some).map_err(|error| error.at(folder.join(FILE_NAME).display()));
        }
        Ok((tokenizer.added("<custom_token_0>") == Some(ORPHEUS_CUSTOM)).then(Self::orpheus))
    }

    /// Returns a format without voices, for tokens without any before or after.
    pub(super) fn new(speech: u32, end: u32) -> Self {
        Self {
            voices: Vec::new(),
            prompt: prompt(),
            before: Vec::new(),
            after: Vec::new(),
            speech,
            end,
            codec: None,
            slot_codes: None,
            repetition_penalty: None,
            penalty_window: None,
            temperature: None,
            top_k: None,
            top_p: None,
            min_p: None,
            normalise: None,
        }
    }

    /// Returns the format of Orpheus.
    pub fn orpheus() -> Self {
        Self {
            voices: ORPHEUS_VOICES.map(str::to_owned).to_vec(),
            before: vec![ORPHEUS_CUSTOM + 3],
            after: vec![128_009, ORPHEUS_CUSTOM + 4, ORPHEUS_CUSTOM + 5, ORPHEUS_CUSTOM + 1],
            slot_codes: Some(4096),
            repetition_penalty: Some(1.1),
            temperature: Some(0.6),
            top_p: Some(0.9),
            ..Self::new(ORPHEUS_CUSTOM + 10, ORPHEUS_CUSTOM + 2)
        }
    }

    /// Reads a `speak.yaml`.
    ///
    /// # Errors
    /// `Corrupt` when it is not YAML with these keys; `InvalidArgument` when a prompt or voice is impossible.
    pub fn from_yaml(text: &str) -> Result<Self> {
        let format: Self = from_yaml(text).map_err(|error| error.with_hint("docs/speak.md lists the keys"))?;
        format.check_prompt()?;
        Ok(format)
    }

    pub(super) fn check_prompt(&self) -> Result<()> {
        if self.prompt.matches(TEXT).count() != 1 {
            return Err(Error::invalid(format!("prompt: `{:.64}` needs {TEXT} once", self.prompt)));
        }
        if self.voices.is_empty() == self.prompt.contains(VOICE) {
            return Err(Error::invalid(format!("prompt: it has {VOICE} if there are voices, and only then")));
        }
        for (index, voice) in self.voices.iter().enumerate() {
            if voice.trim().is_empty() || voice.contains(TEXT) || self.voices[..index].contains(voice) {
                return Err(Error::invalid(format!("voices: `{voice:.64}` is empty, twice there, or not a name")));
            }
        }
        Ok(())
    }

    /// Returns where the speech is in a vocabulary of `n_tokens`, for frames of `codec`.
    ///
    /// # Errors
    /// The codec is another one than that of the format, or built in and the format is Orpheus', or a token is outside
    /// of the vocabulary.
    pub(super) fn tokens(&self, n_tokens: usize, codec: &snac::Model) -> Result<Tokens> {
        let (n_slots, codes) = (codec.config().n_slots(), codec.config().codebook_size);
        if let Some(expected) = self.codec.as_deref().filter(|hash| *hash != codec.hash()) {
            let message = format!("this codec is {}; the voice model was trained with {expected:.64}", codec.hash());
            return Err(Error::invalid(message).with_hint("open the codec that made the tokens it learned from"));
        }
        if let Some(expected) = self.slot_codes.filter(|expected| [n_slots, codes] != [7, *expected]) {
            let message = format!("the codec has {n_slots} slots of {codes} codes; Orpheus has 7 of {expected}");
            return Err(Error::invalid(message).with_hint("Orpheus was trained with hubertsiuzdak/snac_24khz"));
        }
        if self.slot_codes.is_some() && self.codec.is_none() && codec.is_builtin() {
            let message = "Orpheus was trained with hubertsiuzdak/snac_24khz; with the built-in codec it speaks noise";
            return Err(Error::invalid(message)
                .with_hint(Remedy::NameCodec)
                .or_hint("set `speak.codec` to the hash of this one if that is wrong"));
        }
        let last = (n_slots as u64 * codes as u64) + u64::from(self.speech) - 1;
        let steering = self.before.iter().chain(&self.after).chain([&self.end]);
        let largest = steering.fold(last, |largest, &token| largest.max(token.into()));
        if largest >= n_tokens as u64 {
            let message = format!("the format has the token {largest}; the vocabulary has {n_tokens}");
            return Err(Error::invalid(message).with_hint("the model, its codec and its format must belong together"));
        }
        if (u64::from(self.speech)..=last).contains(&self.end.into()) {
            return Err(Error::invalid(format!("end: the token {} is one of the speech", self.end)));
        }
        Ok(Tokens {
            speech: self.speech,
            end: self.end,
            n_slots: n_slots as u32,
            slot_codes: codes as u32,
            n_tokens: n_tokens as u32,
        })
    }

    /// Returns how tokens are drawn where a caller asks for nothing else.
    pub fn settings(&self) -> Settings {
        Settings {
            sample: Sample {
                repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
                temperature: self.temperature.unwrap_or(1.0),
                top_k: self.top_k.unwrap_or(0),
                top_p: self.top_p.unwrap_or(1.0),
                min_p: self.min_p.unwrap_or(0.0),
            },
            penalty_window: self.penalty_window.unwrap_or(usize::MAX),
            draw: Draw::Frames,
        }
    }

    /// Returns whether texts are normalised before they are cut.
    pub fn normalises(&self) -> bool {
        self.normalise.unwrap_or(false)
    }

    /// Returns a text as it is read, without control characters but the ends of lines.
    pub(super) fn read(&self, text: &str) -> Normalised {
        let Normalised { text, notes } = match self.normalises() {
            true => normalise(text),
            false => Normalised { text: text.to_owned(), notes: Vec::new() },
        };
        let plain = |letter: char| if letter.is_control() && letter != '\n' { ' ' } else { letter };
        Normalised { text: text.chars().map(plain).collect(), notes }
    }

    /// Returns a text as it is read, on one line.
    #[doc(hidden)]
    pub fn words(&self, text: &str) -> Normalised {
        let Normalised { text, notes } = self.read(text);
        Normalised { text: text.split_whitespace().collect::<Vec<_>>().join(" "), notes }
    }

    /// Returns the voice called `name`, or the default one.
    pub(super) fn voice<'a>(&'a self, name: Option<&'a str>) -> Result<&'a str> {
        match name {
            None => Ok(self.voices.first().map_or("", String::as_str)),
            Some(name) if self.voices.iter().any(|voice| voice == name) => Ok(name),
            Some(name) if self.voices.is_empty() => {
                Err(Error::invalid(format!("voice `{name:.64}`: this model has only one, without a name"))
                    .with_hint("leave the voice out"))
            }
            Some(name) => Err(Error::invalid(format!("unknown voice `{name:.64}`"))
                .with_hint(format!("the voices are {}", self.voices.join(", ")))),
        }
    }

    /// Returns the tokens of a prompt.
    pub(super) fn prompt(&self, tokenizer: &Tokenizer, voice: &str, text: &str) -> Result<Vec<u32>> {
        let (head, tail) = self.prompt.split_once(TEXT).unwrap_or_default();
        let [head, tail] = [head, tail].map(|part| part.replace(VOICE, voice));
        let inner = tokenizer.encode(&format!("{head}{text}{tail}"))?;
        Ok([&self.before[..], &inner, &self.after].concat())
    }
}
