//! The records of a text table.
//!
//! # Why our own reader?
//!
//! A record is read again at its place when its row is written, so the reader must tell the byte and
//! line of each. `csv-core` tells neither, and separating fields is 50 of these lines.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::BOM;
use crate::{Error, Result};

/// The longest record, in bytes.
const MAX_RECORD: usize = 1 << 20;
/// The start of a file that decides its dialect.
const START: usize = 64 << 10;

/// How the fields of a table are separated. Only commas have quoting, as in RFC 4180.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dialect {
    Comma,
    Tab,
    Bar,
    /// A JSON object a line; the fields are the values of these keys.
    Json(Arc<[String]>),
}

/// One row as it was read.
#[derive(Debug)]
pub(super) struct Record {
    /// Its first line, counted from 1.
    pub(super) line: u32,
    /// Its first byte in the file.
    pub(super) at: u64,
    dialect: Dialect,
    /// Without the end of the line, or why it is not a record.
    bytes: Result<Vec<u8>>,
}

/// Reads a file from a position.
pub(super) struct At<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> At<'a> {
    pub(super) fn new(file: &'a File, at: u64) -> Self {
        Self { file, at }
    }
}

impl Read for At<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(to, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Dialect {
    /// Detects the separator: `.tsv` has tabs, and `.jsonl` objects, of which `keys` are read; otherwise the first line
    /// has bars, tabs or commas.
    pub(super) fn of(path: &Path, file: &File, keys: impl FnOnce() -> Vec<String>) -> Result<Self> {
        let is = |suffix: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(suffix));
        if is("jsonl") {
            return Ok(Self::Json(keys().into()));
        }
        let mut start = vec![0; START];
        let n = file.read_at(&mut start, 0).map_err(|error| Error::io(path.display(), error))?;
        let line = start[..n].split(|&byte| byte == b'\n').next().unwrap_or_default();
        Ok(match line {
            _ if is("tsv") => Self::Tab,
            line if line.contains(&b'|') => Self::Bar,
            line if line.contains(&b'\t') => Self::Tab,
            _ => Self::Comma,
        })
    }

    /// Returns the records from byte `at` on, which must be the start of one.
    pub(super) fn records<R: BufRead>(&self, reader: R, at: u64) -> Records<R> {
        Records { reader, dialect: self.clone(), at, line: 1, waiting: VecDeque::new() }
    }

    fn split(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            Self::Comma => Ok(unquote(bytes)),
            Self::Tab => Ok(bytes.split(|&byte| byte == b'\t').map(<[u8]>::to_vec).collect()),
            Self::Bar => Ok(bytes.split(|&byte| byte == b'|').map(<[u8]>::to_vec).collect()),
            Self::Json(keys) => {
                let object: Map<String, Value> = serde_json::from_slice(bytes)
                    .map_err(|error| Error::corrupt(format!("this is not a JSON object: {error}")))?;
                keys.iter().map(|key| value(&object, key).map(String::into_bytes)).collect()
            }
        }
    }
}

/// Reads records one by one.
pub(super) struct Records<R> {
    reader: R,
    dialect: Dialect,
    at: u64,
    line: u32,
    /// Lines that were read as a part of a record that never ended.
    waiting: VecDeque<Line>,
}

/// A line with its end.
#[derive(Default)]
struct Line {
    /// Cut after [`MAX_RECORD`] bytes.
    bytes: Vec<u8>,
    /// Bytes that were cut off.
    n_cut: u64,
}

impl<R: BufRead> Records<R> {
    /// Returns the next line; empty at the end of the file.
    fn line(&mut self) -> Result<Line> {
        if let Some(line) = self.waiting.pop_front() {
            return Ok(line);
        }
        let failed = |error| Error::io("the table", error);
        let mut line = Line::default();
        let n = (&mut self.reader).take(MAX_RECORD as u64 + 1).read_until(b'\n', &mut line.bytes).map_err(failed)?;
        if n > MAX_RECORD && !line.bytes.ends_with(b"\n") {
            let mut rest = Vec::new();
            // The rest of the line is counted, not held.
            while (&mut self.reader).take(1 << 16).read_until(b'\n', &mut rest).map_err(failed)? > 0 {
                line.n_cut += rest.len() as u64;
                if rest.ends_with(b"\n") {
                    break;
                }
                rest.clear();
            }
        }
        Ok(line)
    }

    fn record(&mut self) -> Result<Option<Record>> {
        let (first_line, at) = (self.line, self.at);
        let mut lines = vec![self.line()?];
        if lines[0].bytes.is_empty() {
            return Ok(None);
        }
        if at == 0 && lines[0].bytes.starts_with(BOM) {
            lines[0].bytes.drain(..BOM.len());
            lines[0].n_cut += BOM.len() as u64;
        }
        let mut len = lines[0].bytes.len();
        let mut quoting = Quoting::default();
        let is_quoted = self.dialect == Dialect::Comma;
        let mut is_open = is_quoted && quoting.is_open_after(&lines[0].bytes);
        let mut found = Ok(());
        while is_open {
            let line = if len > MAX_RECORD { Line::default() } else { self.line()? };
            if line.bytes.is_empty() {
                found = Err(Error::corrupt("a quote is never closed"));
                lines.drain(1..).rev().for_each(|line| self.waiting.push_front(line));
                break;
            }
            is_open = quoting.is_open_after(&line.bytes);
            len += line.bytes.len();
            lines.push(line);
        }
        self.at += lines.iter().map(|line| line.bytes.len() as u64 + line.n_cut).sum::<u64>();
        self.line = self.line.saturating_add(lines.len() as u32);
        let bytes: Vec<u8> = lines.into_iter().flat_map(|line| line.bytes).collect();
        if bytes.len() > MAX_RECORD {
            found = Err(Error::invalid(format!("a row of more than {MAX_RECORD} bytes")));
        }
        let end = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let whole = end.strip_suffix(b"\r").unwrap_or(end);
        let bytes = found.map(|()| whole.to_vec());
        Ok(Some(Record { line: first_line, at, dialect: self.dialect.clone(), bytes }))
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record>;

    /// Returns the next record that is not empty.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.record().transpose()? {
                Ok(record) if record.bytes.as_ref().is_ok_and(Vec::is_empty) => {}
                record => return Some(record),
            }
        }
    }
}

impl Record {
    /// Returns the fields, without white space at their ends.
    pub(super) fn fields(&self) -> Result<Vec<String>> {
        let bytes = self.bytes.as_ref().map_err(|error| Error::new(error.kind(), error.to_string()))?;
        let text = |field: Vec<u8>| {
            let text = String::from_utf8(field).map_err(|_| Error::corrupt("this is not UTF-8"))?;
            Ok(text.trim().to_owned())
        };
        self.dialect.split(bytes)?.into_iter().map(text).collect()
    }
}

/// Returns the value of `key` as text: numbers as they are written, and null as nothing.
fn value(object: &Map<String, Value>, key: &str) -> Result<String> {
    match object.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Null) => Ok(String::new()),
        Some(number @ (Value::Number(_) | Value::Bool(_))) => Ok(number.to_string()),
        Some(_) => Err(Error::invalid(format!("`{key}` is neither a text nor a number"))),
        None => Err(Error::invalid(format!("no key `{key}`"))),
    }
}

/// Where in a row of RFC 4180 the next byte is. A quote in the middle of a field without quotes is a
/// letter.
#[derive(Default)]
struct Quoting {
    is_quoted: bool,
    has_letters: bool,
}

/// The role of a byte.
enum Byte {
    Literal,
    /// The first of two quotes that stand for one.
    Doubled,
    Quote,
    Comma,
}

impl Quoting {
    fn step(&mut self, byte: u8, next: Option<u8>) -> Byte {
        let kind = match byte {
            b'"' if self.is_quoted && next == Some(b'"') => Byte::Doubled,
            b'"' if self.is_quoted || !self.has_letters => Byte::Quote,
            b',' if !self.is_quoted => Byte::Comma,
            _ => Byte::Literal,
        };
        match kind {
            Byte::Literal | Byte::Doubled => self.has_letters = true,
            Byte::Quote => self.is_quoted = !self.is_quoted,
            Byte::Comma => self.has_letters = false,
        }
        kind
    }

    /// Returns whether a quote is open after more bytes.
    fn is_open_after(&mut self, bytes: &[u8]) -> bool {
        let mut at = 0;
        while at < bytes.len() {
            let kind = self.step(bytes[at], bytes.get(at + 1).copied());
            at += if matches!(kind, Byte::Doubled) { 2 } else { 1 };
        }
        self.is_quoted
    }
}

/// Splits at commas outside of quotes; a doubled quote is a quote.
fn unquote(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let (mut quoting, mut at) = (Quoting::default(), 0);
    while at < bytes.len() {
        match quoting.step(bytes[at], bytes.get(at + 1).copied()) {
            Byte::Literal => field.push(bytes[at]),
            Byte::Doubled => {
                field.push(b'"');
                at += 1;
            }
            Byte::Quote => {}
            Byte::Comma => fields.push(std::mem::take(&mut field)),
        }
        at += 1;
    }
    fields.push(field);
    fields
}
