//! A table with the texts of audio files: CSV, TSV, fields between `|`, or JSON objects.
//!
//! The table is read once to find where each row begins. After that a row is read again when its
//! text is needed, so memory holds 24 bytes per row.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::fields::Fields;
use super::inputs::Inputs;
use super::record::{At, Dialect, Record};
use super::text::Text;
use crate::dataset::failure::{Action, Failure, TEXT_STAGE};
use crate::dataset::input::{self, Input, SUFFIXES};
use crate::text::count;
use crate::{Error, Remedy, Result};

/// The name of a path column that need not be given.
const PATH_COLUMN: &str = "path";

/// The suffix of a row that names its file without one.
const NO_SUFFIX: usize = SUFFIXES.len();

/// A table of texts.
#[derive(Debug)]
pub struct Metadata {
    path: PathBuf,
    file: File,
    dialect: Dialect,
    path_column: usize,
    text_column: usize,
    speaker_column: Option<usize>,
    /// The columns of the corpus that this table has, with their places in it.
    kept: Vec<(String, usize)>,
    /// Sorted by key, suffix and line.
    rows: Vec<Indexed>,
    /// Rows that cannot be used.
    faults: Vec<(u32, Failure)>,
}

/// Where a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Indexed {
    /// The hash of the file's name without its suffix.
    key: u64,
    /// Its suffix among [`SUFFIXES`], or [`NO_SUFFIX`].
    suffix: usize,
    line: u32,
    at: u64,
}

impl Metadata {
    /// Opens a table. Columns are numbers counted from 1, or names in the first line. The path
    /// column is `path` if the first line has names, and the first column otherwise. A path may lack
    /// its suffix and any of its first folders.
    ///
    /// # Errors
    /// The file cannot be read, or it has no such column.
    pub fn open(path: impl AsRef<Path>, text_column: &str, path_column: Option<&str>) -> Result<Self> {
        Self::open_fields(path, &Fields::new(text_column).with_path(path_column.map(str::to_owned)))
    }

    /// Works like [`Metadata::open`], and also reads columns that the corpus keeps. In a `.jsonl` file, whose rows are
    /// JSON objects, columns are keys, and the path column is `path`.
    ///
    /// # Errors
    /// As [`Metadata::open`], or a corpus cannot have a column of such a name.
    pub fn open_fields(path: impl AsRef<Path>, fields: &Fields) -> Result<Self> {
        let path = path.as_ref();
        let outputs = fields.outputs()?;
        let at = |error: Error| error.at(path.display());
        let failed = |error| Error::io(path.display(), error);
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Error::invalid(format!("{}: this is not a regular file", path.display())));
        }
        let wanted = || [&fields.text].into_iter().chain(&fields.path).chain(&fields.speaker).chain(&fields.kept);
        let dialect = Dialect::of(path, &file, || {
            let path = fields.path.is_none().then(|| PATH_COLUMN.to_owned());
            path.into_iter().chain(wanted().cloned()).collect()
        })?;
        let mut records = dialect.records(BufReader::new(At::new(&file, 0)), 0);
        let number = |name: &str| name.parse::<usize>().ok().filter(|&n| n > 0).map(|n| n - 1);
        let names = match &dialect {
            Dialect::Json(keys) => keys.to_vec(),
            _ if wanted().all(|name| number(name).is_some()) => Vec::new(),
            _ => {
                let header = records.next().transpose().map_err(at)?;
                let names = header.map(|header| header.fields()).transpose();
                names.map_err(|error| at(error).with_hint("save the table as UTF-8"))?.unwrap_or_default()
            }
        };
        let column = |name: &String| match number(name).filter(|_| !matches!(dialect, Dialect::Json(_))) {
            Some(number) => Ok(number),
            None => names.iter().position(|found| found == name).ok_or_else(|| {
                Error::invalid(format!("{}: no column `{name}` in its first line", path.display()))
                    .with_hint(format!("its columns are {}; or count them from 1", names.join(", ")))
            }),
        };
        let path_column = match &fields.path {
            Some(name) => column(name)?,
            None => names.iter().position(|name| name == PATH_COLUMN).unwrap_or(0),
        };
        let places = fields.speaker.iter().chain(&fields.kept).map(&column).collect::<Result<Vec<_>>>()?;
        let mut table = Self {
            path: path.to_owned(),
            file: file.try_clone().map_err(failed)?,
            path_column,
            text_column: column(&fields.text)?,
            speaker_column: fields.speaker.as_ref().map(column).transpose()?,
            kept: outputs.into_iter().zip(places).collect(),
            dialect: dialect.clone(),
            rows: Vec::new(),
            faults: Vec::new(),
        };
        for record in records {
            table.add(record?);
        }
        table.index();
        table.check()?;
        Ok(table)
    }

    /// Returns the columns of the corpus that this table has beside the texts.
    pub(in crate::dataset) fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the text of a row, with its speaker, and then what is kept of it.
    fn cells(&self, fields: &[String]) -> Result<Vec<String>> {
        let cell = |name: &str, column: usize| {
            fields.get(column).cloned().ok_or_else(|| {
                let n = count(fields.len() as u64, "column");
                Error::invalid(format!("{n}; {name} is column {}", column + 1))
            })
        };
        let mut text = cell("the text", self.text_column)?;
        if let Some(column) = self.speaker_column {
            let speaker = cell("the speaker", column)?;
            if !speaker.is_empty() && !text.is_empty() {
                text = format!("{speaker}: {text}");
            }
        }
        let kept = self.kept.iter().map(|(name, column)| cell(&format!("`{name}`"), *column));
        std::iter::once(Ok(text)).chain(kept).collect()
    }

    /// Fails if there are no texts at all, as with the wrong column.
    fn check(&self) -> Result<()> {
        match (self.rows.first(), self.faults.first()) {
            (Some(_), _) => Ok(()),
            (None, None) => Err(Error::invalid(format!("{}: the table has no rows", self.path.display()))),
            (None, Some((_, first))) => {
                Err(Error::invalid(format!("no row can be used; the first is {}: {}", first.path, first.message))
                    .with_hint("check the columns that were named"))
            }
        }
    }

    fn add(&mut self, record: Record) {
        let found = record.fields().and_then(|fields| {
            let name = fields.get(self.path_column).cloned().unwrap_or_default();
            if name.is_empty() {
                return Err(Error::invalid(format!("no path in column {}", self.path_column + 1)));
            }
            Text::all(&self.cells(&fields)?, record.at).map(|_| name)
        });
        match found {
            Ok(name) => {
                let name = input::name(name.as_ref());
                let (stem, suffix) = split(&name);
                let key = xxh3_64(stem.as_bytes());
                self.rows.push(Indexed { key, suffix, line: record.line, at: record.at });
            }
            Err(error) => self.refuse(record.line, &error),
        }
    }

    fn refuse(&mut self, line: u32, error: &Error) {
        let path = format!("{}:{line}", self.path.display());
        self.faults.push((line, Failure::new(path, TEXT_STAGE, error, Action::Skipped)));
    }

    /// Sorts the rows. Of several for one file, the first counts.
    fn index(&mut self) {
        self.rows.sort_unstable();
        let mut repeated = Vec::new();
        self.rows.dedup_by(|row, first| {
            let is_same = (row.key, row.suffix) == (first.key, first.suffix);
            if is_same {
                repeated.push((row.line, first.line));
            }
            is_same
        });
        for (line, first) in repeated {
            self.refuse(line, &Error::invalid(format!("line {first} has the text of this file already")));
        }
        self.faults.sort_by_key(|fault| fault.0);
        self.rows.shrink_to_fit();
    }

    /// Returns the row of the file at `path`: the one with most of its folders.
    fn row(&self, path: &str) -> Option<usize> {
        let (whole, suffix) = split(path);
        let below = whole.match_indices('/').map(|(at, _)| &whole[at + 1..]);
        std::iter::once(whole).chain(below).find_map(|stem| self.row_of_stem(stem, (suffix, path)))
    }

    /// Returns the row of `stem` with this suffix, else the one without any, else one with the suffix of a file that is
    /// not beside the file at `path`.
    fn row_of_stem(&self, stem: &str, (suffix, path): (usize, &str)) -> Option<usize> {
        let key = xxh3_64(stem.as_bytes());
        let first = self.rows.partition_point(|row| row.key < key);
        let n = self.rows[first..].partition_point(|row| row.key == key);
        let find = |matches: &dyn Fn(usize) -> bool| (first..first + n).find(|&row| matches(self.rows[row].suffix));
        let exists = |suffix: &str| Path::new(path).with_extension(suffix).exists();
        let is_absent = |other: usize| {
            SUFFIXES.get(other).is_some_and(|suffix| !exists(suffix) && !exists(&suffix.to_ascii_uppercase()))
        };
        find(&|other| other == suffix).or_else(|| find(&|other| other == NO_SUFFIX)).or_else(|| find(&is_absent))
    }

    fn row_of(&self, input: &Input) -> Option<usize> {
        // The folders of a table may begin above the current one.
        let path = std::path::absolute(input.path()).unwrap_or_else(|_| input.path().to_owned());
        self.row(&input::name(path.as_os_str()))
    }

    /// Returns the text of the file at `path`, which is looked up as it is.
    ///
    /// # Errors
    /// The table has no row for it or cannot be read.
    pub fn text(&self, path: &str) -> Result<String> {
        Ok(self.cells_at(self.at(self.row(path))?)?.swap_remove(0))
    }

    /// Returns the text of `input` and what is kept of its row.
    pub(super) fn find(&self, input: &Input) -> Result<Vec<Text>> {
        let at = self.at(self.row_of(input))?;
        Text::all(&self.cells_at(at)?, at)
    }

    /// Returns where a row begins.
    fn at(&self, row: Option<usize>) -> Result<u64> {
        let row = row.ok_or_else(|| Error::invalid(format!("{} has no row for this file", self.path.display())));
        row.map(|row| self.rows[row].at)
    }

    /// Returns the text of the row that begins at byte `at`, and what is kept of it.
    pub(super) fn cells_at(&self, at: u64) -> Result<Vec<String>> {
        self.cells(&self.fields_at(at)?)
    }

    fn fields_at(&self, at: u64) -> Result<Vec<String>> {
        let record = self.dialect.records(BufReader::new(At::new(&self.file, at)), at).next();
        let record = record.ok_or_else(|| Error::truncated("the table has become shorter"));
        record.and_then(|record| record?.fields()).map_err(|error| error.at(self.path.display()))
    }

    /// Fails if no row belongs to any of `inputs`, as when another column than that of the paths was named.
    pub(super) fn check_inputs(&self, inputs: &Inputs) -> Result<()> {
        let (Some(first), Some(input)) = (self.rows.iter().min_by_key(|row| row.line), inputs.files.first()) else {
            return Ok(());
        };
        if inputs.files.iter().any(|input| self.row_of(input).is_some()) {
            return Ok(());
        }
        let fields = self.fields_at(first.at)?;
        let cell = fields.get(self.path_column).map_or("", String::as_str);
        let table = self.path.display();
        let message = format!(
            "{table}: no row matches an input file: line {} names `{cell:.80}`, the first file is {}",
            first.line,
            input.name()
        );
        Err(Error::invalid(message).with_hint(Remedy::NamePathColumn))
    }

    pub(super) fn without_file(&self, inputs: &Inputs) -> Result<Vec<Failure>> {
        let mut is_used = vec![false; self.rows.len()];
        for input in inputs.files.iter() {
            if let Some(row) = self.row_of(input) {
                is_used[row] = true;
            }
        }
        let unused = self.rows.iter().zip(is_used).filter(|(_, is_used)| !is_used).map(|(row, _)| row);
        let missing = |row: &Indexed| {
            let path = format!("{}:{}", self.path.display(), row.line);
            let fields = self.fields_at(row.at).unwrap_or_default();
            let name = fields.get(self.path_column).map_or("", String::as_str);
            (row.line, Failure::without_file(path, name))
        };
        let mut all: Vec<(u32, Failure)> = unused.map(missing).chain(self.faults.iter().cloned()).collect();
        all.sort_by_key(|failure| failure.0);
        Ok(all.into_iter().map(|(_, failure)| failure).collect())
    }
}

/// Returns a name as in the column `path`, without `./` and the suffix of an audio file, and that suffix.
fn split(name: &str) -> (&str, usize) {
    let name = name.strip_prefix("./").unwrap_or(name);
    let suffix = |suffix: &str| SUFFIXES.iter().position(|known| suffix.eq_ignore_ascii_case(known));
    let parts = name.rsplit_once('.').and_then(|(stem, end)| Some((stem, suffix(end)?)));
    parts.unwrap_or((name, NO_SUFFIX))
}

#[cfg(test)]
mod tests;
