//! Files that were rejected, and why.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// The longest accepted line of a list.
const MAX_LINE: u64 = 16 << 20;
/// The stage of failures to find a text.
pub(super) const TEXT_STAGE: &str = "text";
/// The code of files that do not exist.
pub(super) const MISSING: &str = "missing";
const NO_FILE: &str = "no-file";
const CLIPPED: &str = "clipped";
const BELOW_LIMIT: &str = "low-snr";
const LIMITED: &str = "peak-limited";

/// One rejected file, as a line of `failures.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The file, as in the column `path`.
    pub path: String,
    /// The stage that failed: `scan`, `text`, `read`, `compute` or `verify`.
    pub stage: String,
    /// `missing`, `unreadable`, `truncated`, `corrupt`, `unsupported`, `overflow`, `too-short`, `too-long`, `silent`,
    /// `no-text`, `no-file`, `text`, `low-snr`, `clipped` or `peak-limited`.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// What happened to the file's rows.
    pub action: Action,
}

/// A failure with the file and the row that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RowFailure {
    /// The file's index among all inputs.
    pub file: u32,
    /// The row that failed; 0 if the file has no rows.
    pub row: u32,
    /// What happened.
    pub failure: Failure,
}

/// Returns one failure per file, the one of its first failed row, in the order of the files. That a
/// text is missing counts only if there is nothing else. That audio is clipped or quieter than asked is listed besides.
pub(super) fn in_order(mut failures: Vec<RowFailure>) -> Vec<Failure> {
    let key = |failed: &RowFailure| (failed.file, failed.failure.is_clipped(), failed.failure.is_limited());
    failures.sort_by_key(|failed| (key(failed), failed.failure.action == Action::NoText, failed.row));
    failures.dedup_by_key(|failed| key(failed));
    failures.into_iter().map(|failed| failed.failure).collect()
}

/// Counts failures by their reason.
pub(super) fn by_code<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    failures.into_iter().for_each(|failure| *counts.entry(failure.code.as_str()).or_default() += 1);
    counts
}

/// What happened to the rows of a rejected file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// The file has no rows.
    Skipped,
    /// The file has no rows, because a filter left it out.
    LeftOut,
    /// Rows that could not be computed are zero, and their `status` is not.
    ZeroFilled,
    /// The file's row is valid, but has no text.
    NoText,
    /// The file's rows are valid, but its audio is clipped or quieter than asked, or the decoded tokens
    /// differ from it by more than the limit.
    Kept,
}

impl Failure {
    /// Describes the failure of `path` with `error`.
    pub fn new(path: String, stage: &str, error: &Error, action: Action) -> Self {
        let hint = error.hint().map_or_else(String::new, |hint| format!(" ({hint})"));
        let code = if stage == TEXT_STAGE { TEXT_STAGE } else { code(error) };
        Self { path, stage: stage.to_owned(), code: code.to_owned(), message: format!("{error}{hint}"), action }
    }

    /// Describes the row of a table at `place`, which names the file `name` that is not among the inputs.
    pub(super) fn without_file(place: String, name: &str) -> Self {
        let error = Error::invalid(format!("no audio file `{name}` among the inputs"));
        Self { code: NO_FILE.to_owned(), ..Self::new(place, TEXT_STAGE, &error, Action::Skipped) }
    }

    /// Describes a file that is too short for a row.
    pub(super) fn too_short(path: String, error: &Error) -> Self {
        Self::unfit(path, "too-short", error)
    }

    /// Describes a file that a filter leaves out.
    pub(super) fn left_out(path: String, code: &str, error: &Error) -> Self {
        Self { code: code.to_owned(), ..Self::new(path, "scan", error, Action::LeftOut) }
    }

    /// Describes a file whose audio cannot be prepared as asked.
    pub(super) fn unfit(path: String, code: &str, error: &Error) -> Self {
        Self { code: code.to_owned(), ..Self::new(path, "scan", error, Action::Skipped) }
    }

    /// Describes a file that would be clipped if it were as loud as asked; `message` says how loud it is.
    pub(super) fn limited(path: String, message: String) -> Self {
        Self { path, stage: "scan".to_owned(), code: LIMITED.to_owned(), message, action: Action::Kept }
    }

    /// Describes a file whose audio is clipped; `message` says where.
    pub(super) fn clipped(path: String, message: String) -> Self {
        Self { path, stage: "read".to_owned(), code: CLIPPED.to_owned(), message, action: Action::Kept }
    }

    /// Returns whether the file is listed because its audio is clipped.
    pub fn is_clipped(&self) -> bool {
        self.code == CLIPPED
    }

    /// Returns whether the file is listed because it is quieter than asked, so that its peaks fit.
    pub fn is_limited(&self) -> bool {
        self.code == LIMITED
    }

    /// Returns whether the file is listed because its decoded tokens differ too much.
    pub fn is_below_limit(&self) -> bool {
        self.code == BELOW_LIMIT
    }

    /// Returns whether the file was refused: it has no row, or one that is not valid.
    pub fn is_refusal(&self) -> bool {
        self.stage != TEXT_STAGE && !matches!(self.action, Action::Kept | Action::LeftOut)
    }

    /// Returns whether a filter left the file out.
    pub fn is_left_out(&self) -> bool {
        self.action == Action::LeftOut
    }

    /// Describes a file whose decoded tokens have less than `least` dB of signal-to-noise.
    pub(super) fn below(path: String, snr_db: f32, least: f64) -> Option<Self> {
        let message = format!("{snr_db:.2} dB signal-to-noise; the limit is {least} dB");
        let (stage, code) = ("verify".to_owned(), BELOW_LIMIT.to_owned());
        (f64::from(snr_db) < least).then_some(Self { path, stage, code, message, action: Action::Kept })
    }
}

/// Returns whether the file at `path` is a list of failures. An empty file is one.
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

/// Returns the name of an error's kind in `failures.jsonl`.
pub(super) fn code(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Truncated => "truncated",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Unsupported | ErrorKind::Version => "unsupported",
        ErrorKind::Check => "overflow",
        // Such as a channel that the file does not have.
        ErrorKind::InvalidArgument => "unsupported",
        _ if error.io_source().is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound) => MISSING,
        _ => "unreadable",
    }
}
