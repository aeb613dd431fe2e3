//! Text to speech: what clients ask for, cut into pieces that the language model can speak.

mod cycle;
mod request;
mod sentence;

use serde_json::{Value, json};

use crate::upstream::Upstream;

pub(crate) use cycle::CycleDetector;
pub(crate) use request::{Request, StreamFormat};

/// The names of the default model, its own last.
pub(crate) const MODELS: [&str; 4] = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"];
/// OpenAI's voices, which stand for the default voice.
const OPENAI_VOICES: [&str; 13] =
    ["alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse"];

/// `GET /v1/models`: none without an upstream.
pub(crate) fn models(upstream: Option<&Upstream>) -> Value {
    let names = if upstream.is_some() { &MODELS[..] } else { &[] };
    let one = |id: &&str| json!({"id": id, "object": "model", "created": 0, "owned_by": "melisma"});
    json!({"object": "list", "data": names.iter().map(one).collect::<Vec<_>>()})
}

/// `GET /v1/audio/voices`: the model's own, the default one first; none without an upstream.
pub(crate) fn voices(upstream: Option<&Upstream>) -> Value {
    let names = upstream.map_or(&[][..], Upstream::voices);
    json!({"voices": names.iter().map(|name| json!({"id": name, "name": name})).collect::<Vec<_>>()})
}
