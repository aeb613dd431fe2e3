//! The section `upstream` of `melisma.yaml`.

use melisma::Result;
use melisma::config::{Field, Raw};

/// The name of the built-in prompt, voices and fields: those of Orpheus.
pub(super) const ORPHEUS: &str = "orpheus";

/// Which route of the upstream is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
}

impl Field for Api {
    fn parse(raw: &Raw) -> Result<Self> {
        let expected = "completions or chat";
        match raw.word(expected)? {
            "completions" => Ok(Self::Completions),
            "chat" => Ok(Self::Chat),
            _ => Err(raw.wrong(expected)),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Completions => "completions".to_owned(),
            Self::Chat => "chat".to_owned(),
        }
    }
}

melisma::section! {
    /// The language model behind speech, as users describe it.
    Config {}
    "upstream.api" api: Api = Api::Completions, "The route of the language model behind speech.";
    "upstream.model" model: Option<String> = None, "The model's name there, if it has to be named.";
    "upstream.template" template: String = ORPHEUS.to_owned(), "Its prompt: `orpheus`, or a text with `{text}`.";
    "upstream.voices" voices: String = ORPHEUS.to_owned(), "Its voices: `orpheus`, or names with commas.";
    "upstream.request" request: String = ORPHEUS.to_owned(), "Fields of requests: `orpheus`, or a JSON object.";
    "upstream.stop" stop: String = "<custom_token_2>".to_owned(), "Text that ends its speech.";
    "upstream.max_tokens" max_tokens: u64 = 8192, "The most tokens for one piece of text.";
    "upstream.normalise" normalise: bool = false, "Whether numbers, dates and the like are read out in words.";
}
