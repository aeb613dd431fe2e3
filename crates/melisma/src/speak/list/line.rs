//! The lines of a list.

use std::path::Path;

use serde::Deserialize;

use crate::format::read_text;
use crate::text::count;
use crate::{Error, Result};

/// The largest list.
const MAX_LIST: u64 = 256 << 20;
/// The most bytes of a name, so that a suffix fits behind it.
const MAX_NAME: usize = 200;

/// A line of a list: a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Line {
    /// What is spoken.
    pub text: String,
    /// The voice, if it is not that of the job.
    pub voice: Option<String>,
    /// The seed, if it is not that of the job.
    pub seed: Option<u64>,
    /// The name of the file or row; `None` for the line's number in six digits.
    pub name: Option<String>,
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// It is not an object with these keys, or its name cannot be that of a file.
    pub fn from_json(text: &str) -> Result<Self> {
        let line: Self = serde_json::from_str(text).map_err(|error| match error.is_data() {
            true => Error::corrupt(error.to_string()),
            false => Error::corrupt(format!("this is not JSON, at column {}", error.column())),
        })?;
        match &line.name {
            Some(name) if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') || has_mark(name) => {
                Err(Error::invalid(format!("`{name:.64}` cannot be the name of a file")))
            }
            _ => Ok(line),
        }
    }
}

fn has_mark(name: &str) -> bool {
    name.contains(|letter: char| letter.is_control() || matches!(letter, '/' | '\\'))
}

/// The lines of a list that are not empty, with their numbers, counted from 1.
#[derive(Debug)]
pub struct List {
    pub(super) name: String,
    pub(super) lines: Vec<(u32, Result<Line>)>,
}

impl List {
    /// Reads the file at `path`. Lines that are damaged are kept as errors.
    ///
    /// # Errors
    /// The file cannot be read, is not UTF-8, or has more than 256 MiB.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().display().to_string();
        Self::parse(&name, &read_text(path, MAX_LIST)?)
    }

    /// Reads the lines of a text that messages call `name`.
    ///
    /// # Errors
    /// There are more lines than a dataset can have rows.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = u32::try_from(index + 1)
                .map_err(|_| Error::unsupported(format!("{name}: more than {}", count(u32::MAX.into(), "line"))))?;
            lines.push((number, Line::from_json(line)));
        }
        Ok(Self { name: name.to_owned(), lines })
    }

    /// Returns what messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of lines that are not empty.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there is no such line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}
