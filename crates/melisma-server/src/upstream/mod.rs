//! The language model behind `/v1/audio/speech`: a client of streaming completions.
//!
//! [`Upstream::complete`] sends the pieces of a text one after the other, the next one while the current one
//! is spoken, and hands out the model's text, with the audio tokens in it, while it arrives. Every
//! line, wait and answer is bounded.
//!
//! # Why no HTTP client library?
//!
//! Hyper is here for the server. A connection for each request, without redirects, proxies, cookies or
//! pools, takes about 300 lines.

mod address;
pub mod completion;
mod completion_stream;
mod config;
mod connection;
pub mod event;
pub(crate) mod fault;
mod settings;
mod stop;
mod template;
mod tls;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use melisma::lock::Mutex;
use melisma::{Error, Result};
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

use address::{Address, Scheme};
pub use completion_stream::{CompletionEvent, CompletionStream};
pub use config::{Api, Config};
use connection::MAX_EXCERPT_BYTES;
pub use settings::Settings;
pub use template::{PromptVars, Template, clean};
pub(crate) use watch::watch;

use crate::key;

/// Bounds on one request to the upstream, and on all of an input.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a line, and of an event.
    pub line_bytes: usize,
    /// Audio tokens for one piece of text.
    pub tokens: u64,
    /// Bytes of text without a whole frame.
    pub frameless_bytes: usize,
    /// Time to connect.
    pub connect: Duration,
    /// Time until the first token of a piece.
    pub first: Duration,
    /// Time from one token to the next.
    pub idle: Duration,
    /// Time for all of an input.
    pub total: Duration,
    /// Audio that repeats itself, in seconds.
    pub repeat_s: f64,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            line_bytes: 64 << 10,
            tokens: 8192,
            frameless_bytes: 16 << 10,
            connect: seconds(5),
            first: seconds(30),
            idle: seconds(10),
            total: seconds(1800),
            repeat_s: 5.0,
        }
    }
}

/// A language model that speaks in tokens, behind an HTTP API.
pub struct Upstream {
    address: Address,
    tls: Option<TlsConnector>,
    authorization: Option<HeaderValue>,
    settings: Settings,
    voices: Mutex<Arc<[String]>>,
    /// Whether it answered when it was asked last.
    is_up: Mutex<Option<bool>>,
}

impl Upstream {
    /// Checks the settings. Nothing is sent yet: the upstream may start later.
    ///
    /// # Errors
    /// The URL, the key or the voices are not valid; the system's certificates cannot be read.
    pub fn new(mut settings: Settings) -> Result<Self> {
        let address = Address::parse(&settings.url)?;
        let tls = match address.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(tls::system()?),
        };
        let key = settings.key.take().map(|key| key::check("the upstream's key", &key)).transpose()?;
        let authorization = key.map(|key| authorization(&key)).transpose()?;
        let voices = Mutex::new(checked(std::mem::take(&mut settings.voices))?);
        Ok(Self { address, tls, authorization, settings, voices, is_up: Mutex::default() })
    }

    /// Returns the model's voices, the default one first.
    pub fn voices(&self) -> Arc<[String]> {
        Arc::clone(&self.voices.lock())
    }

    /// Takes the voices of `settings`, for the requests to come. Returns how many there are.
    ///
    /// # Errors
    /// They are not valid, and the old ones stay.
    pub fn set_voices(&self, settings: Settings) -> Result<usize> {
        let voices = checked(settings.voices)?;
        let count = voices.len();
        *self.voices.lock() = voices;
        Ok(count)
    }

    /// Returns whether it answered when it was asked last.
    pub fn is_up(&self) -> Option<bool> {
        *self.is_up.lock()
    }

    /// Returns the limits on the clients.
    pub fn limits(&self) -> Limits {
        self.settings.limits
    }

    /// Returns whether texts are read out in words before it gets them.
    pub fn normalises(&self) -> bool {
        self.settings.normalise
    }

    /// Speaks `texts`, which are pieces of one text, as `vars` says.
    pub fn complete(self: &Arc<Self>, texts: &[String], vars: PromptVars<'_>) -> CompletionStream {
        let bodies = texts.iter().map(|text| self.body(PromptVars { text, ..vars })).collect();
        CompletionStream::new(Arc::clone(self), bodies)
    }

    /// Returns the request for one piece.
    fn body(&self, vars: PromptVars<'_>) -> String {
        let Settings { api, model, template, stop, fields, limits, .. } = &self.settings;
        let prompt = template.prompt(vars);
        let mut body = fields.clone();
        let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
        match api {
            Api::Completions => set("prompt", prompt.into()),
            Api::Chat => {
                let system = (!vars.instructions.is_empty()).then_some(("system", vars.instructions));
                let messages = system.into_iter().chain([("user", &*prompt)]);
                set("messages", messages.map(|(role, content)| json!({"role": role, "content": content})).collect())
            }
        };
        set("stream", true.into());
        set("stream_options", json!({"include_usage": true}));
        set("max_tokens", limits.tokens.into());
        if !stop.is_empty() {
            set("stop", json!([stop]));
        }
        if let Some(model) = model {
            set("model", model.clone().into());
        }
        Value::Object(body).to_string()
    }

    /// Returns the beginning of `said` without the key.
    pub(crate) fn redacted(&self, said: &str) -> String {
        let said = &said[..said.floor_char_boundary(MAX_EXCERPT_BYTES)];
        let header = self.authorization.as_ref().and_then(|value| value.to_str().ok());
        let key = header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default();
        if key.is_empty() {
            return said.to_owned();
        }
        let mut said = said.replace(key, "[key]");
        let begun = (1..key.len()).rev().find(|&n| said.ends_with(&key[..n]));
        said.truncate(said.len() - begun.unwrap_or(0));
        said
    }

    fn path(&self) -> String {
        self.address.path(match self.settings.api {
            Api::Completions => "/v1/completions",
            Api::Chat => "/v1/chat/completions",
        })
    }
}

/// Returns the voices, if they are names.
fn checked(voices: Vec<String>) -> Result<Arc<[String]>> {
    let is_name = |voice: &String| !voice.is_empty() && clean(voice) == *voice;
    match !voices.is_empty() && voices.iter().all(is_name) {
        true => Ok(voices.into()),
        false => Err(Error::invalid("the upstream's voices are not a list of names").with_hint("name at least one")),
    }
}

fn authorization(key: &str) -> Result<HeaderValue> {
    let value = HeaderValue::from_str(&format!("Bearer {key}"));
    let mut value = value.map_err(|_| Error::invalid("the upstream's key does not fit into a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the tests of the whole server use the rest of it")]
#[path = "../../tests/integration/stand_in.rs"]
mod stand_in;
#[cfg(test)]
mod tests;
