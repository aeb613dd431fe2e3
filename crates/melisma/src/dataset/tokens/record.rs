//! The records of a text table.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::{Error, Result};

/// The longest record, in bytes.
const MAX_RECORD: usize = 1 << 20;
/// The start of a file that decides its dialect.
const START: usize = 64 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// How the fields of a table are separated. Only commas have quoting, as in RFC 4180.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Comma,
    Tab,
    Bar,
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
    /// `.tsv` has tabs; otherwise the first line has bars, tabs or commas.
    pub(super) fn of(path: &Path, file: &File) -> Result<Self> {
        let mut start = vec![0; START];
        let n = file.read_at(&mut start, 0).map_err(|error| Error::io(path.display(), error))?;
        let line = start[..n].split(|&byte| byte == b'\n').next().unwrap_or_default();
        let is_tsv = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("tsv"));
        Ok(match line {
            _ if is_tsv => Self::Tab,
            line if line.contains(&b'|') => Self::Bar,
            line if line.contains(&b'\t') => Self::Tab,
            _ => Self::Comma,
        })
    }

    /// The records from byte `at` on, which must be the start of one.
    pub(super) fn records<R: BufRead>(self, reader: R, at: u64) -> Records<R> {
        Records { reader, dialect: self, at, line: 1, waiting: VecDeque::new() }
    }

    fn split(self, bytes: &[u8]) -> Vec<Vec<u8>> {
        match self {
            Self::Comma => unquote(bytes),
            Self::Tab => bytes.split(|&byte| byte == b'\t').map(<[u8]>::to_vec).collect(),
            Self::Bar => bytes.split(|&byte| byte == b'|').map(<[u8]>::to_vec).collect(),
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
    waiting: VecDeque<Vec<u8>>,
}

impl<R: BufRead> Records<R> {
    /// The next line with its end; empty at the end of the file. A longer one than [`MAX_RECORD`]
    /// is cut there.
    fn line(&mut self) -> Result<Vec<u8>> {
        if let Some(line) = self.waiting.pop_front() {
            return Ok(line);
        }
        let failed = |error| Error::io("the table", error);
        let mut line = Vec::new();
        let n = (&mut self.reader).take(MAX_RECORD as u64 + 1).read_until(b'\n', &mut line).map_err(failed)?;
        if n > MAX_RECORD && !line.ends_with(b"\n") {
            let mut rest = Vec::new();
            // The rest of the line is counted, not held.
            while (&mut self.reader).take(1 << 16).read_until(b'\n', &mut rest).map_err(failed)? > 0 {
                self.at += rest.len() as u64;
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
        let mut bytes = self.line()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let first_len = bytes.len();
        let has_odd_quotes = |line: &[u8]| line.iter().filter(|&&byte| byte == b'"').count() % 2 == 1;
        let mut is_open = self.dialect == Dialect::Comma && has_odd_quotes(&bytes);
        let mut more = Vec::new();
        let mut found = Ok(());
        while is_open {
            let line = if bytes.len() > MAX_RECORD { Vec::new() } else { self.line()? };
            if line.is_empty() {
                found = Err(Error::corrupt("a quote is never closed"));
                bytes.truncate(first_len);
                more.drain(..).rev().for_each(|line| self.waiting.push_front(line));
                break;
            }
            is_open ^= has_odd_quotes(&line);
            bytes.extend_from_slice(&line);
            more.push(line);
        }
        if bytes.len() > MAX_RECORD {
            found = Err(Error::invalid(format!("a row of more than {MAX_RECORD} bytes")));
        }
        self.at += bytes.len() as u64;
        self.line = self.line.saturating_add(bytes.iter().filter(|&&byte| byte == b'\n').count().max(1) as u32);
        let end = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let whole = end.strip_suffix(b"\r").unwrap_or(end);
        let whole = if at == 0 { whole.strip_prefix(BOM).unwrap_or(whole) } else { whole };
        let bytes = found.map(|()| whole.to_vec());
        Ok(Some(Record { line: first_line, at, dialect: self.dialect, bytes }))
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record>;

    /// The next record that is not empty.
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
    /// The fields, without white space at their ends.
    pub(super) fn fields(&self) -> Result<Vec<String>> {
        let bytes = self.bytes.as_ref().map_err(|error| Error::new(error.kind(), error.to_string()))?;
        let text = |field: Vec<u8>| {
            let text = String::from_utf8(field).map_err(|_| Error::corrupt("this is not UTF-8"))?;
            Ok(text.trim().to_owned())
        };
        self.dialect.split(bytes).into_iter().map(text).collect()
    }
}

/// Splits at commas outside of quotes; a doubled quote is a quote.
fn unquote(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = vec![Vec::new()];
    let (mut is_quoted, mut rest) = (false, bytes.iter().copied().peekable());
    while let Some(byte) = rest.next() {
        let Some(field) = fields.last_mut() else { break };
        match byte {
            b'"' if is_quoted && rest.peek() == Some(&b'"') => field.extend(rest.next()),
            b'"' if is_quoted || field.is_empty() => is_quoted = !is_quoted,
            b',' if !is_quoted => fields.push(Vec::new()),
            byte => field.push(byte),
        }
    }
    fields
}
