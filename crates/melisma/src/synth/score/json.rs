//! Scores as JSON.

use super::Score;
use crate::{Error, ErrorKind, Result};

/// The JSON schema of scores.
pub const SCHEMA: &str = include_str!("score.schema.json");
/// The largest file: a million notes take about 120 MB.
const MAX_BYTES: usize = 512 << 20;

impl Score {
    /// Reads and checks a score; notes may be in any order.
    ///
    /// # Errors
    /// It is not JSON, lacks a field or has an unknown one, or a value is outside of its limits. Messages name the line, or the
    /// place in the list.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        if text.len() > MAX_BYTES {
            return Err(Error::invalid(format!("the score has {} bytes; at most {MAX_BYTES}", text.len()))
                .with_hint("cut the score into parts"));
        }
        let mut score: Self = serde_json::from_slice(text).map_err(refused)?;
        score.check()?;
        score.sort();
        Ok(score)
    }

    /// Returns the score as JSON, one note per line.
    pub fn to_json(&self) -> String {
        let list = |name: &str, lines: Vec<String>| match lines.as_slice() {
            [] if name != "notes" => String::new(),
            [] => format!(",\n  \"{name}\": []"),
            lines => format!(",\n  \"{name}\": [\n    {}\n  ]", lines.join(",\n    ")),
        };
        format!(
            "{{\n  \"tempo\": {}{}{}{}\n}}\n",
            json(&self.tempo),
            list("notes", self.notes.iter().map(json).collect()),
            list("bends", self.bends.iter().map(json).collect()),
            list("controls", self.controls.iter().map(json).collect()),
        )
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn refused(error: serde_json::Error) -> Error {
    let (kind, hint) = match error.classify() {
        serde_json::error::Category::Eof if (error.line(), error.column()) == (1, 0) => {
            return Error::new(ErrorKind::Truncated, "the score is empty")
                .with_hint("a score is a MIDI file or JSON with a list of notes")
                .with_source(error);
        }
        serde_json::error::Category::Eof => (ErrorKind::Truncated, "the file was cut off: make or fetch it again"),
        serde_json::error::Category::Data => {
            (ErrorKind::InvalidArgument, "docs/score.schema.json has every field and its limits")
        }
        _ => (ErrorKind::Corrupt, "a score is JSON: numbers cannot be NaN or infinite"),
    };
    Error::new(kind, error.to_string()).with_hint(hint).with_source(error)
}
