//! How each type of setting is read from YAML and from words (variables and flags), and printed.

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::config::precision;
use crate::config::profile::Profile;
use crate::config::request::DeviceRequest;
use crate::trace::Sort;
use crate::{Error, Result};

/// An untyped value.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// `true` or `false` in a file.
    Bool(bool),
    /// An integer in a file.
    Integer(i128),
    /// Another number in a file.
    Number(f64),
    /// Text in a file.
    Text(String),
    /// A variable or a flag; the key determines its type.
    Word(String),
    /// A list in a file.
    List(Vec<Self>),
    /// Anything else in a file, described for the message.
    Other(&'static str),
}

impl Raw {
    /// Returns the error for a value that is not `expected`.
    pub fn wrong(&self, expected: &str) -> Error {
        let found = match self {
            Self::Bool(value) => format!("`{value}`"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Number(_) => "a number that is not whole".to_owned(),
            Self::Text(text) | Self::Word(text) => format!("the text `{}`", abbreviated(text)),
            Self::List(_) => "a list".to_owned(),
            Self::Other(what) => (*what).to_owned(),
        };
        Error::invalid(format!("expected {expected}, found {found}"))
            .with_hint(format!("write {expected}, or leave it out for the default"))
    }

    pub(super) fn integer(&self, expected: &str) -> Result<u64> {
        let number = match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Word(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(expected))
    }

    /// Returns the text.
    ///
    /// # Errors
    /// It is not `expected`, which is a kind of text.
    pub fn word(&self, expected: &str) -> Result<&str> {
        match self {
            Self::Text(text) | Self::Word(text) => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) | Self::Word(text) if text == word)
    }
}

fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A type of setting.
pub trait Field: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// The value has the wrong type or range.
    fn parse(raw: &Raw) -> Result<Self>;

    /// Returns the value as written in the file.
    fn show(&self) -> String;

    /// Returns the value as JSON, with sizes in bytes.
    fn json(&self) -> Value {
        Value::String(self.show())
    }
}

impl Field for bool {
    fn parse(raw: &Raw) -> Result<Self> {
        match raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Word(text) if matches!(text.as_str(), "true" | "1" | "yes" | "on") => Ok(true),
            Raw::Word(text) if matches!(text.as_str(), "false" | "0" | "no" | "off") => Ok(false),
            _ => Err(raw.wrong("true or false")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Field for u64 {
    fn parse(raw: &Raw) -> Result<Self> {
        raw.integer("a whole number")
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Field for Option<PathBuf> {
    fn parse(raw: &Raw) -> Result<Self> {
        raw.word("a path").map(|text| Some(text.into()))
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), |path| path.display().to_string())
    }

    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, |path| json!(path.display().to_string()))
    }
}

impl Field for String {
    fn parse(raw: &Raw) -> Result<Self> {
        raw.word("a text").map(str::to_owned)
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Field for Option<String> {
    fn parse(raw: &Raw) -> Result<Self> {
        String::parse(raw).map(Some)
    }

    fn show(&self) -> String {
        self.clone().unwrap_or_else(|| "none".to_owned())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

macro_rules! words {
    ($($type:ty, $expected:literal;)+) => {$(
        impl Field for $type {
            fn parse(raw: &Raw) -> Result<Self> {
                Self::from_str(raw.word($expected)?).map_err(|_| raw.wrong($expected))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

words! {
    DeviceRequest, "auto, cpu, cuda or cuda:N";
    Profile, "emergency, field or training";
    precision::Request, "fp32, fp16, bf16, int8 or auto";
    precision::Format, "fp32, fp16, bf16 or int8";
    Sort, "self, total, calls, name, p99, device, bytes or allocated";
}
