//! The format that tokens are written in.

use std::path::Path;

use melisma::snac::tokens::{Format, Text, to_json, to_npy, to_safetensors};
use melisma::snac::{Codes, Model};
use melisma::{Error, Result};

use crate::input::is_pipe;

/// The token format to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFormat {
    /// Text, which can be written while frames come.
    Text(Text),
    /// A file that is written at the end.
    List(List),
}

/// A file with all codes of each level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    Json,
    Npy,
    Safetensors,
}

impl TokenFormat {
    /// Returns the format for `path` with `--format`.
    pub fn choose(path: &Path, format: Format) -> Result<Self> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase());
        let by_suffix = match suffix.as_deref() {
            _ if is_pipe(path) => Some(Self::Text(Text::Orpheus)),
            Some("txt") => Some(Self::Text(Text::Orpheus)),
            Some("json") => Some(Self::List(List::Json)),
            Some("npy") => Some(Self::List(List::Npy)),
            Some("safetensors") => Some(Self::List(List::Safetensors)),
            _ => None,
        };
        let list = by_suffix.filter(|format| matches!(format, Self::List(_)));
        match format {
            Format::Auto => by_suffix.ok_or_else(|| {
                let suffix = suffix.map_or_else(String::new, |suffix| format!(" `.{suffix}`"));
                Error::invalid(format!("{}: unknown output suffix{suffix}", path.display()))
                    .with_hint("name it .txt, .json, .npy or .safetensors, or use --format")
            }),
            Format::Orpheus | Format::Ids if list.is_some() => {
                let message = format!("{}: this suffix is for lists of codes", path.display());
                Err(Error::invalid(message).with_hint("name it .txt, or use --format codes"))
            }
            Format::Orpheus => Ok(Self::Text(Text::Orpheus)),
            Format::Ids => Ok(Self::Text(Text::Ids)),
            Format::Codes => Ok(list.unwrap_or(Self::List(List::Json))),
        }
    }

    /// Returns the file of a whole clip.
    pub fn bytes(self, model: &Model, codes: &Codes) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok((text.start(model)? + &text.lines(codes)).into_bytes()),
            Self::List(list) => list.bytes(model, codes),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Text(Text::Orpheus) => "orpheus",
            Self::Text(Text::Ids) => "ids",
            Self::List(_) => "codes",
        }
    }

    /// Returns the most bytes of memory that each code takes until the end.
    pub fn code_bytes(self) -> u64 {
        match self {
            Self::Text(_) => 0,
            // The codes, their copy by level, a JSON value each, and its digits.
            Self::List(List::Json) => 48,
            Self::List(List::Npy) => 8,
            Self::List(List::Safetensors) => 12,
        }
    }
}

impl List {
    pub fn bytes(self, model: &Model, codes: &Codes) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Json => to_json(model, codes).into_bytes(),
            Self::Npy => to_npy(model, codes),
            Self::Safetensors => to_safetensors(model, codes)?,
        })
    }
}
