//! The body of `POST /v1/audio/speech`.

use melisma::speak::{Normalised, Note, PIECE_CHARS, cut, normalise};
use melisma::text::count;
use serde_json::{Map, Value};

use super::{DEFAULT_VOICES, Narrator, Narrators};
use crate::audio::Format;
use crate::http::failure::Failure;
use crate::upstream::clean;

/// Characters of an input, and of instructions.
const MAX_CHARS: usize = 4096;
const SPEEDS: std::ops::RangeInclusive<f64> = 0.25..=4.0;
const FORMATS: &str = "mp3, opus, flac, wav or pcm";

/// How the audio is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// As it is.
    Audio,
    /// In base64, within server-sent events.
    Events,
}

/// A request for speech.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// Who speaks.
    pub(crate) narrator: Narrator,
    /// The input, cut at sentences for an upstream; a voice model gets the whole.
    pub(crate) pieces: Vec<String>,
    /// What the normalisation for an upstream left out, for the log; a voice model notes it itself.
    pub(crate) notes: Vec<String>,
    /// One of the model's voices.
    pub(crate) voice: String,
    /// Of a voice model's random numbers.
    pub(crate) seed: u64,
    /// How to speak; empty if the client does not say.
    pub(crate) instructions: String,
    /// The format of the audio.
    pub(crate) format: Format,
    /// How it is sent.
    pub(crate) stream_format: StreamFormat,
    /// 1 is the model's own speed.
    pub(crate) speed: f64,
    /// Whether events with its picture accompany the audio.
    pub(crate) has_picture: bool,
}

impl Request {
    /// Reads a body. Unknown fields are ignored.
    ///
    /// # Errors
    /// 404 for a model, 400 for anything else that does not exist here.
    pub(crate) fn read(body: &[u8], narrators: &Narrators) -> Result<Self, Failure> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| Failure::invalid("invalid_content", format!("the body is not JSON: {error}")))?;
        let Value::Object(fields) = body else {
            return Err(Failure::invalid("invalid_content", "the body is not a JSON object"));
        };
        let narrator = narrator(&fields, narrators)?;
        let input = text(&fields, "input")?;
        let (pieces, notes) = match narrator {
            // Its tokenizer spells what would steer the model.
            Narrator::Own(_) => (vec![input], Vec::new()),
            Narrator::Upstream if narrators.normalises => {
                let Normalised { text, notes, .. } = normalise(&input);
                (cut(&text, PIECE_CHARS), notes)
            }
            Narrator::Upstream => (cut(&clean(&input), PIECE_CHARS), Vec::new()),
        };
        if pieces.iter().all(|piece| piece.trim().is_empty()) {
            return Err(match &notes[..] {
                [] => Failure::parameter("input", "`input` has no text"),
                [note, ..] => {
                    Failure::parameter("input", format!("`input` has no word to speak: {note}")).quoting_text()
                }
            });
        }
        let format = choice(&fields, "response_format", FORMATS, Format::from_name)?;
        let stream_format = choice(&fields, "stream_format", "audio or sse", |name| match name {
            "audio" => Some(StreamFormat::Audio),
            "sse" => Some(StreamFormat::Events),
            _ => None,
        })?;
        let stream_format = stream_format.unwrap_or(StreamFormat::Audio);
        let has_instructions = fields.get("instructions").is_some_and(|value| !value.is_null());
        let instructions = if has_instructions { text(&fields, "instructions")? } else { String::new() };
        Ok(Self {
            narrator,
            pieces,
            notes: notes.iter().map(without_words).collect(),
            voice: voice(&fields, narrators.voices(narrator))?,
            seed: seed(&fields, narrator)?,
            instructions: clean(&instructions),
            format: format.unwrap_or(Format::Mp3),
            stream_format,
            speed: speed(&fields)?,
            has_picture: has_picture(&fields, stream_format)?,
        })
    }

    /// Returns the characters that are spoken.
    pub(crate) fn n_chars(&self) -> usize {
        self.pieces.iter().map(|piece| piece.chars().count()).sum()
    }
}

/// Returns a note for the log, which counts passages of the text and does not name them.
pub(crate) fn without_words(note: &Note) -> String {
    match note {
        Note::Repeats(_) | Note::Endless(..) | Note::Silent(_) => note.to_string(),
        Note::LeftOut(passages) => format!("left out: {}", count(passages.len() as u64, "passage")),
        Note::Spelled(passages) => format!("read letter by letter: {}", count(passages.len() as u64, "passage")),
    }
}

/// Returns a text of at most [`MAX_CHARS`] characters.
fn text(fields: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    let missing = || Failure::parameter(name, format!("`{name}` is missing, or not a text"));
    let text = fields.get(name).and_then(Value::as_str).ok_or_else(missing)?;
    match text.chars().count() {
        n if n > MAX_CHARS => {
            Err(Failure::parameter(name, format!("`{name}` has {n} characters; at most {MAX_CHARS} are taken")))
        }
        _ => Ok(text.to_owned()),
    }
}

fn choice<T>(
    fields: &Map<String, Value>,
    name: &str,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Failure> {
    let value = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let wrong = || Failure::parameter(name, format!("`{name}` is one of {expected}"));
    value.as_str().and_then(read).map(Some).ok_or_else(wrong)
}

fn narrator(fields: &Map<String, Value>, narrators: &Narrators) -> Result<Narrator, Failure> {
    match fields.get("model") {
        None | Some(Value::Null) => narrators.find(None),
        Some(Value::String(name)) => narrators.find(Some(name)),
        Some(_) => Err(Failure::parameter("model", "`model` is not a text")),
    }
}

/// Reads the voice, which OpenAI's clients write as a name or as an object with its `id`.
fn voice(fields: &Map<String, Value>, voices: &[String]) -> Result<String, Failure> {
    let value = fields.get("voice").map(|value| value.get("id").unwrap_or(value));
    let is_missing = value.is_none_or(Value::is_null);
    if let (true, Some(default)) = (is_missing, voices.first()) {
        return Ok(default.clone());
    }
    let name = value.and_then(Value::as_str);
    let name = name.ok_or_else(|| Failure::parameter("voice", "`voice` is missing, or not a text"))?;
    let found = voices.iter().find(|voice| *voice == name);
    let default = voices.first().filter(|_| DEFAULT_VOICES.contains(&name));
    found.or(default).cloned().ok_or_else(|| {
        let message = format!("unknown voice `{name:.64}`; the voices are {}", voices.join(", "));
        Failure::parameter("voice", message)
    })
}

/// Reads `seed`, a field of Melisma's own; an upstream draws its own numbers.
fn seed(fields: &Map<String, Value>, narrator: Narrator) -> Result<u64, Failure> {
    match (fields.get("seed"), narrator) {
        (None | Some(Value::Null), _) | (_, Narrator::Upstream) => Ok(0),
        (Some(seed), Narrator::Own(_)) => {
            let wrong = || Failure::parameter("seed", "`seed` is a whole number from 0 to 18446744073709551615");
            seed.as_u64().ok_or_else(wrong)
        }
    }
}

fn speed(fields: &Map<String, Value>) -> Result<f64, Failure> {
    let speed = match fields.get("speed") {
        None | Some(Value::Null) => return Ok(1.0),
        Some(value) => value.as_f64(),
    };
    let wrong = || Failure::parameter("speed", "`speed` is a number from 0.25 to 4");
    speed.filter(|speed| SPEEDS.contains(speed)).ok_or_else(wrong)
}

/// Reads `picture`, a field of Melisma's own.
fn has_picture(fields: &Map<String, Value>, stream_format: StreamFormat) -> Result<bool, Failure> {
    match fields.get("picture") {
        None | Some(Value::Null | Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) if stream_format == StreamFormat::Events => Ok(true),
        Some(_) => Err(Failure::parameter("picture", "`picture` is true or false, and needs `stream_format` sse")),
    }
}

#[cfg(test)]
mod tests;
