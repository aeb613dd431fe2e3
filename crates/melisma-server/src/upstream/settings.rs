//! What an upstream is made of.

use melisma::{Error, Result};
use serde_json::{Map, Value, json};

use super::config::ORPHEUS;
use super::{Api, Config, Limits, Template};

/// The voices of Orpheus, its authors' favourite first.
const ORPHEUS_VOICES: &str = "tara,leah,jess,leo,dan,mia,zac,zoe";

/// What an upstream is made of.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://HOST:PORT` or `https://HOST`, with any path before `/v1`.
    pub url: String,
    /// Its key.
    pub key: Option<String>,
    /// The route.
    pub api: Api,
    /// The model's name there, if it has to be named.
    pub model: Option<String>,
    /// The prompt.
    pub template: Template,
    /// The model's voices, the default one first.
    pub voices: Vec<String>,
    /// Text that ends the speech.
    pub stop: String,
    /// Further fields of the request.
    pub fields: Map<String, Value>,
    /// Limits on the clients.
    pub limits: Limits,
    /// Whether texts are normalised.
    pub normalise: bool,
}

impl Settings {
    /// Creates the settings of the upstream at `url`, as `config` describes it.
    ///
    /// # Errors
    /// The template has no `{text}`, the fields are not a JSON object, or there are no
    /// tokens.
    pub fn new(url: &str, config: &Config) -> Result<Self> {
        let api = config.api.value;
        let template = Template::new(&config.template.value, api);
        let voices = match &*config.voices.value {
            ORPHEUS => ORPHEUS_VOICES,
            names => names,
        };
        let tokens = config.max_tokens.value;
        if tokens == 0 {
            let message = format!("{}: `upstream.max_tokens` is 0", config.max_tokens.origin);
            return Err(Error::invalid(message).with_hint("write 1 or more"));
        }
        Ok(Self {
            url: url.to_owned(),
            key: None,
            api,
            model: config.model.value.clone(),
            template: template.map_err(|error| error.at(&config.template.origin))?,
            voices: voices.split(',').map(|name| name.trim().to_owned()).collect(),
            stop: config.stop.value.clone(),
            fields: fields(&config.request.value).map_err(|error| error.at(&config.request.origin))?,
            limits: Limits { tokens, ..Limits::default() },
            normalise: config.normalise.value,
        })
    }
}

/// Returns the fields of sampling that Orpheus' authors advise; vLLM and llama.cpp name the penalty differently.
fn fields(text: &str) -> Result<Map<String, Value>> {
    let wrong = || {
        Error::invalid("`upstream.request` is not a JSON object").with_hint(r#"write it as in '{"temperature": 0.6}'"#)
    };
    let fields = match text {
        ORPHEUS => json!({"temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.1, "repeat_penalty": 1.1}),
        _ => serde_json::from_str(text).map_err(|_| wrong())?,
    };
    match fields {
        Value::Object(fields) => Ok(fields),
        _ => Err(wrong()),
    }
}
