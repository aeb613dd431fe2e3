//! Text to speech: what clients ask for, and who speaks it.

mod request;

use std::path::Path;

use hyper::StatusCode;
use melisma::speak::BUILTIN;
use serde_json::{Value, json};

use crate::app::App;
use crate::http::failure::Failure;
use crate::speakers::Speakers;

pub(crate) use request::{Request, StreamFormat, without_words};

/// The names of the default model, its own last.
const MODELS: [&str; 4] = ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "melisma"];
/// The name of the upstream beside voice models.
pub(crate) const UPSTREAM: &str = "upstream";
/// Names that stand for the default voice of any model: those of OpenAI's voices, and `default`.
const DEFAULT_VOICES: [&str; 14] = [
    "alloy", "ash", "ballad", "cedar", "coral", "default", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer",
    "verse",
];

/// Who speaks a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrator {
    /// The voice model of this number.
    Own(usize),
    Upstream,
}

/// All who can speak, and their voices.
#[derive(Debug, Default)]
pub(crate) struct Narrators {
    /// Of each voice model its name and voices; the only voice of a model without names has that of the model.
    pub(crate) own: Vec<(String, Vec<String>)>,
    /// Which of them is the built-in voice, which has its own name beside the one that it was given.
    pub(crate) builtin: Option<usize>,
    /// The voices of the upstream, if there is one.
    pub(crate) upstream: Option<Vec<String>>,
    /// Whether texts for the upstream are normalised; a voice model does so itself.
    pub(crate) normalises: bool,
}

impl Narrators {
    /// Returns those of a server; its voice models once they are loaded.
    pub(crate) fn of(app: &App) -> Self {
        let own = app.decoder.get().map_or(&[][..], |decoder| &decoder.speakers);
        let one = |speakers: &Speakers| match speakers.voices() {
            [] => (speakers.name().to_owned(), vec![speakers.name().to_owned()]),
            voices => (speakers.name().to_owned(), voices.to_vec()),
        };
        let upstream = app.upstream.as_ref().map(|upstream| upstream.voices().to_vec());
        let normalises = app.upstream.as_ref().is_some_and(|upstream| upstream.normalises());
        let builtin = own.iter().position(|speakers| speakers.folder() == Path::new(BUILTIN));
        Self { own: own.iter().map(one).collect(), builtin, upstream, normalises }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.upstream.is_none()
    }

    /// Returns who is called `model`. OpenAI's names, and none, mean the first voice model, or the upstream where there
    /// are only its own.
    ///
    /// # Errors
    /// 404 for an unknown name, with the list.
    pub(crate) fn find(&self, model: Option<&str>) -> Result<Narrator, Failure> {
        let named = |name: &str| self.own.iter().position(|(own, _)| own == name).map(Narrator::Own);
        let default = match self.own.is_empty() {
            true => Narrator::Upstream,
            false => Narrator::Own(0),
        };
        match model {
            None => Ok(default),
            Some(name) => named(name)
                .or_else(|| self.builtin.filter(|_| name == BUILTIN).map(Narrator::Own))
                .or_else(|| (name == UPSTREAM && self.has_both()).then_some(Narrator::Upstream))
                .or_else(|| MODELS.contains(&name).then_some(default))
                .ok_or_else(|| {
                    let message = format!("unknown model `{name:.64}`; the models are {}", self.names().join(", "));
                    Failure::new(StatusCode::NOT_FOUND, "model_not_found", message).about("model")
                }),
        }
    }

    /// Returns the voices of one, the default one first.
    pub(crate) fn voices(&self, narrator: Narrator) -> &[String] {
        match narrator {
            Narrator::Own(index) => self.own.get(index).map_or(&[], |(_, voices)| voices),
            Narrator::Upstream => self.upstream.as_deref().unwrap_or_default(),
        }
    }

    fn has_both(&self) -> bool {
        !self.own.is_empty() && self.upstream.is_some()
    }

    /// Returns the names of all models.
    fn names(&self) -> Vec<&str> {
        let own = self.own.iter().map(|(name, _)| name.as_str());
        let is_new = |name: &&str| self.own.iter().all(|(own, _)| own != name);
        let aliases = MODELS.into_iter().filter(|_| !self.is_empty()).filter(is_new);
        let builtin = self.builtin.map(|_| BUILTIN);
        own.chain(builtin).chain(aliases).chain(self.has_both().then_some(UPSTREAM)).collect()
    }

    /// Answers `GET /v1/models`, with none if nobody speaks.
    pub(crate) fn models_json(&self) -> Value {
        let one = |id: &str| json!({"id": id, "object": "model", "created": 0, "owned_by": "melisma"});
        json!({"object": "list", "data": self.names().into_iter().map(one).collect::<Vec<_>>()})
    }

    /// Answers `GET /v1/audio/voices` with those of `model` or of the default one; with none if nobody speaks.
    ///
    /// # Errors
    /// As [`Narrators::find`].
    pub(crate) fn voices_json(&self, model: Option<&str>) -> Result<Value, Failure> {
        let names = self.voices(self.find(model)?);
        Ok(json!({"voices": names.iter().map(|name| json!({"id": name, "name": name})).collect::<Vec<_>>()}))
    }
}
