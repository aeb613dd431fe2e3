//! Settings that are amounts: threads, bytes, rows.

use std::num::NonZeroU64;

use serde_json::{Value, json};

use super::field::{Field, Raw};
use crate::text::size;
use crate::{Error, Result};

/// More threads than any machine has cores.
const MAX_THREADS: usize = 1024;

/// How many CPU threads to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One per core that this process may use.
    Auto,
    /// This many.
    Count(usize),
}

impl Threads {
    /// Returns the number, at least 1.
    pub fn count(self) -> usize {
        match self {
            Self::Auto => std::thread::available_parallelism().map_or(1, usize::from),
            Self::Count(count) => count,
        }
    }

    /// Returns the number, if that many can work.
    pub(crate) fn checked(self) -> Result<usize> {
        match self.count() {
            0 => Err(Error::invalid("0 threads cannot do any work")
                .with_hint("write 1 or more, or `auto` for one thread per core")),
            count @ 1..=MAX_THREADS => Ok(count),
            count => Err(Error::invalid(format!("{count} threads are more than the {MAX_THREADS} allowed"))),
        }
    }
}

impl Field for Threads {
    fn parse(raw: &Raw) -> Result<Self> {
        if raw.is_word("auto") {
            return Ok(Self::Auto);
        }
        let count = raw.integer("a number of threads or `auto`")?;
        Self::Count(usize::try_from(count).unwrap_or(usize::MAX)).checked().map(Self::Count)
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

/// The largest allowed error, relative to the largest value: finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(f64);

impl Eq for Tolerance {}

impl Tolerance {
    /// The default.
    pub const DEFAULT: Self = Self(1e-3);

    /// Returns the number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl Field for Tolerance {
    fn parse(raw: &Raw) -> Result<Self> {
        let number = match raw {
            Raw::Number(number) => Some(*number),
            Raw::Integer(number) => Some(*number as f64),
            Raw::Text(text) | Raw::Word(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        number.map(Self).ok_or_else(|| raw.wrong("a tolerance such as 1e-3"))
    }

    fn show(&self) -> String {
        format!("{:e}", self.0)
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

    /// Returns the bytes, if there is a limit.
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
    /// This many.
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
