//! Files that were rejected, and why.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::TEXT_STAGE;
use crate::{Error, Kind};

/// The longest accepted line of a list.
const MAX_LINE: u64 = 16 << 20;

/// One rejected file, as a line of `failures.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The file, as in the column `path`.
    pub path: String,
    /// The stage that failed: `scan`, `text`, `read`, `compute` or `verify`.
    pub stage: String,
    /// `unreadable`, `truncated`, `corrupt`, `unsupported`, `overflow`, `too-short`, `text` or
    /// `low-snr`.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// What happened to the file's rows.
    pub action: Action,
}

/// A failure with the file and the row that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFailure {
    /// The file's index among all inputs.
    pub file: u32,
    /// The row that failed; 0 if the file has no rows.
    pub row: u32,
    /// What happened.
    pub failure: Failure,
}

/// One failure per file, the one of its first failed row, in the order of the files. That a text is
/// missing counts only if there is nothing else.
pub(super) fn in_order(mut failures: Vec<RowFailure>) -> Vec<Failure> {
    failures.sort_by_key(|failed| (failed.file, failed.failure.action == Action::NoText, failed.row));
    failures.dedup_by_key(|failed| failed.file);
    failures.into_iter().map(|failed| failed.failure).collect()
}

/// What happened to the rows of a rejected file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The file has no rows.
    Skipped,
    /// Rows that could not be computed are zero, and their `status` is not.
    ZeroFilled,
    /// The file's row is valid, but has no text.
    NoText,
    /// The file's row is valid, but its audio differs from the file by more than the limit.
    Kept,
}

impl Failure {
    /// Describes the failure of `path` with `error`.
    pub fn new(path: String, stage: &str, error: &Error, action: Action) -> Self {
        let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
        let code = if stage == TEXT_STAGE { "text" } else { code(error) };
        Self { path, stage: stage.to_owned(), code: code.to_owned(), message: format!("{error}{hint}"), action }
    }
}

/// Whether the file at `path` is a list of failures. An empty file is one.
pub(super) fn is_list(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return true,
            Ok(_) if serde_json::from_slice::<Failure>(&line).is_ok() => {}
            _ => return false,
        }
    }
}

/// The name of an error's kind in `failures.jsonl`.
pub(super) fn code(error: &Error) -> &'static str {
    match error.kind() {
        Kind::Truncated => "truncated",
        Kind::Corrupt => "corrupt",
        Kind::Unsupported | Kind::Version => "unsupported",
        Kind::Check => "overflow",
        Kind::InvalidArgument => "too-short",
        _ => "unreadable",
    }
}
