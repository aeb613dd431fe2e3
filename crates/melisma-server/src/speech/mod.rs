//! Text to speech: what clients ask for, cut into pieces that the language model can speak.

mod request;

use serde_json::{Value, json};

use crate::upstream::Upstream;

pub(crate) use request::{Request, StreamFormat};

/// The names of the default model, its own last.
pub(crate) const MODELS: [&str; 4] = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"];
/// OpenAI's voices, which stand for the default voice.
const OPENAI_VOICES: [&str; 13] =
    ["alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"];

/// Answers `GET /v1/models`, with none if there is no upstream.
pub(crate) fn models(upstream: Option<&Upstream>) -> Value {
    let names = if upstream.is_some() { &MODELS[..] } else { &[] };
    let one = |id: &&str| json!({"id": id, "object": "model", "created": 0, "owned_by": "melisma"});
    json!({"object": "list", "data": names.iter().map(one).collect::<Vec<_>>()})
}

/// Answers `GET /v1/audio/voices` with the model's own, the default one first; with none if there is no upstream.
pub(crate) fn voices(upstream: Option<&Upstream>) -> Value {
    let names = upstream.map(Upstream::voices).unwrap_or_default();
    json!({"voices": names.iter().map(|name| json!({"id": name, "name": name})).collect::<Vec<_>>()})
}
