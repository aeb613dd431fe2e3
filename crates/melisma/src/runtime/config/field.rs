//! How each type of setting is read from YAML, from words (variables and flags), and printed.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::runtime::trace::Sort;
use crate::runtime::{DeviceRequest, Profile, precision, size};
use crate::{Error, Result};

/// More threads than any machine has cores.
const MAX_THREADS: u64 = 1024;

/// A value before it has a type.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// `true` or `false` in a file.
    Bool(bool),
    /// A whole number in a file.
    Integer(i128),
    /// Text in a file.
    Text(String),
    /// A variable or a flag, whose type is the key's.
    Word(String),
    /// Anything else in a file, described for the message.
    Other(&'static str),
}

impl Raw {
    fn wrong(&self, expected: &str) -> Error {
        let found = match self {
            Self::Bool(value) => format!("`{value}`"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Text(text) | Self::Word(text) => format!("the text `{}`", abbreviated(text)),
            Self::Other(what) => (*what).to_owned(),
        };
        Error::invalid(format!("expected {expected}, found {found}"))
    }

    fn integer(&self, expected: &str) -> Result<u64> {
        let number = match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Word(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(expected))
    }

    fn word(&self, expected: &str) -> Result<&str> {
        match self {
            Self::Text(text) | Self::Word(text) => Ok(text),
            _ => Err(self.wrong(expected)),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Text(text) | Self::Word(text) if text == word)
    }
}

fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A type that a setting can have.
pub(super) trait Field: Sized {
    fn parse(raw: &Raw) -> Result<Self>;
    fn show(&self) -> String;
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

/// How many CPU threads to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One per core that this process may use.
    Auto,
    /// That many.
    Count(usize),
}

impl Threads {
    /// The number, at least 1.
    pub fn count(self) -> usize {
        match self {
            Self::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            Self::Count(count) => count,
        }
    }
}

impl Field for Threads {
    fn parse(raw: &Raw) -> Result<Self> {
        if raw.is_word("auto") {
            return Ok(Self::Auto);
        }
        match raw.integer("a number of threads or `auto`")? {
            0 => Err(Error::invalid("0 threads cannot do any work")
                .with_hint("write 1 or more, or `auto` for one thread per core")),
            count @ 1..=MAX_THREADS => Ok(Self::Count(count as usize)),
            count => Err(Error::invalid(format!("{count} threads are more than the {MAX_THREADS} allowed"))),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Count(count) => count.to_string(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Auto => json!("auto"),
            Self::Count(count) => json!(count),
        }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

const SIZE: &str = "a size such as 512MiB";

impl Field for Size {
    fn parse(raw: &Raw) -> Result<Self> {
        match raw {
            Raw::Text(text) | Raw::Word(text) => size::parse(text).map(Self),
            _ => raw.integer(SIZE).map(Self),
        }
    }

    fn show(&self) -> String {
        size::exact(self.0)
    }

    fn json(&self) -> Value {
        json!(self.0)
    }
}

/// A memory limit in bytes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<NonZeroU64>);

impl Limit {
    /// No limit.
    pub const NONE: Self = Self(None);

    /// The bytes, if there is a limit.
    pub fn bytes(self) -> Option<u64> {
        self.0.map(NonZeroU64::get)
    }
}

impl Field for Limit {
    fn parse(raw: &Raw) -> Result<Self> {
        if raw.is_word("none") {
            return Ok(Self::NONE);
        }
        match NonZeroU64::new(Size::parse(raw)?.0) {
            Some(bytes) => Ok(Self(Some(bytes))),
            None => Err(Error::invalid("a memory limit of 0 leaves no room for any work")
                .with_hint("write a size such as 6GiB, or `none` for no limit")),
        }
    }

    fn show(&self) -> String {
        self.bytes().map_or_else(|| "none".to_owned(), size::exact)
    }

    fn json(&self) -> Value {
        self.bytes().map_or(Value::Null, |bytes| json!(bytes))
    }
}

/// How many rows a chunk of a large operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSize {
    /// As many as the free memory allows.
    Auto,
    /// That many.
    Rows(NonZeroU64),
}

impl Field for ChunkSize {
    fn parse(raw: &Raw) -> Result<Self> {
        if raw.is_word("auto") {
            return Ok(Self::Auto);
        }
        let rows = raw.integer("a number of rows or `auto`")?;
        NonZeroU64::new(rows).map(Self::Rows).ok_or_else(|| {
            Error::invalid("a chunk of 0 rows makes no progress")
                .with_hint("write 1 or more, or `auto`; chunk_large_tensors: false switches chunking off")
        })
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Rows(rows) => rows.to_string(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Auto => json!("auto"),
            Self::Rows(rows) => json!(rows),
        }
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
    precision::Request, "fp32, fp16, bf16 or auto";
    precision::Format, "fp32, fp16, bf16 or int8";
    Sort, "self, total, calls, name, p99, device or bytes";
}
