//! The language model behind speech.

use std::fmt;
use std::str::FromStr;

/// The name of the built-in prompt, voices and fields: those of Orpheus.
pub const ORPHEUS: &str = "orpheus";

/// Which route of the upstream is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamApi {
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
}

impl FromStr for UpstreamApi {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "completions" => Ok(Self::Completions),
            "chat" => Ok(Self::Chat),
            _ => Err(()),
        }
    }
}

impl fmt::Display for UpstreamApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completions => "completions",
            Self::Chat => "chat",
        })
    }
}
