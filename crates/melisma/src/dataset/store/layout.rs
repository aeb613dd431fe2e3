//! The header of a dataset: its columns and attributes.

use serde_json::{Map, Value};

use crate::{DType, Error, Result};

/// The column with the hash of each row.
pub(in crate::dataset) const HASH_COLUMN: &str = "row_hash";
/// The columns of spectrograms, in the order that a build writes them.
pub(in crate::dataset) const COLUMNS: [&str; 8] =
    ["path", "file_index", "start_sample", "valid_frames", "status", "checksum", HASH_COLUMN, "mel"];
/// The columns of tokens, in the order that a build writes them.
pub(in crate::dataset) const TOKEN_COLUMNS: [&str; 13] = [
    "codes",
    "offsets",
    "seconds",
    "status",
    "path",
    "path_offsets",
    "text",
    "text_offsets",
    "file_index",
    "checksum",
    HASH_COLUMN,
    "snr_db",
    "log_mel_distance",
];
/// The columns of tokens that have several entries per row, and where their rows begin.
pub(in crate::dataset) const RAGGED: [(&str, &str); 3] =
    [("codes", "offsets"), ("path", "path_offsets"), ("text", "text_offsets")];
/// The attribute of a shard that tells from which list of files it was divided.
pub(in crate::dataset) const INPUTS: &str = "inputs";
/// The attribute that names the feature of the rows; spectrograms have none.
pub(in crate::dataset) const KIND: &str = "melisma.kind";
/// The attribute of tokens that names the columns which come from a table, with commas between them.
pub(in crate::dataset) const KEPT_COLUMNS: &str = "melisma.kept";
/// The end of the names of columns that tell where the rows of another begin.
const OFFSETS: &str = "_offsets";
/// The longest name of a column that comes from a table, in bytes.
const MAX_NAME: usize = 64;
/// The value of [`KIND`] for tokens.
pub(in crate::dataset) const TOKENS: &str = "tokens";

/// Returns whether a column that comes from a table can have this name, in every kind of store.
pub(in crate::dataset) fn is_column_name(name: &str) -> bool {
    let is_mark = |letter: char| letter.is_control() || matches!(letter, '/' | '\\' | ',');
    (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(is_mark)
        && !name.ends_with(OFFSETS)
        && !TOKEN_COLUMNS.contains(&name)
}

/// Returns the name of the column that tells where the rows of a column that comes from a table begin.
pub(in crate::dataset) fn offsets_of(name: &str) -> String {
    format!("{name}{OFFSETS}")
}

/// The element type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A number.
    Number(DType),
    /// UTF-8 of this many bytes, zero-padded.
    Text(usize),
}

impl ColumnType {
    /// Returns the bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Number(dtype) => dtype.size(),
            Self::Text(width) => width,
        }
    }
}

impl From<DType> for ColumnType {
    fn from(dtype: DType) -> Self {
        Self::Number(dtype)
    }
}

/// One column, with a value of `shape` per entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// The name.
    pub name: String,
    /// The element type.
    pub element: ColumnType,
    /// The axes after the first one.
    pub shape: Vec<usize>,
    /// The number of entries, if it is not the number of rows.
    pub len: Option<u64>,
}

impl Column {
    /// Creates a column of one element per row.
    pub fn flat(name: &str, element: impl Into<ColumnType>) -> Self {
        Self { name: name.to_owned(), element: element.into(), shape: Vec::new(), len: None }
    }

    /// Creates a column of `len` elements.
    pub fn ragged(name: &str, element: impl Into<ColumnType>, len: u64) -> Self {
        Self { len: Some(len), ..Self::flat(name, element) }
    }

    /// Returns the bytes of one entry.
    pub fn row_bytes(&self) -> usize {
        self.element.bytes() * self.shape.iter().product::<usize>()
    }
}

/// The header of a dataset.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Layout {
    /// The number of rows.
    pub n_rows: u64,
    /// The columns.
    pub columns: Vec<Column>,
    /// Attributes by name: text, integers and floats.
    pub attributes: Map<String, Value>,
}

impl Layout {
    /// Returns the index of the column called `name`.
    ///
    /// # Errors
    /// The column is unknown.
    pub fn column(&self, name: &str) -> Result<usize> {
        let found = self.columns.iter().position(|column| column.name == name);
        found.ok_or_else(|| Error::corrupt(format!("the dataset has no column `{name}`")))
    }

    /// Returns the number of entries of a column.
    pub fn len(&self, column: &Column) -> u64 {
        column.len.unwrap_or(self.n_rows)
    }

    /// Returns whether the rows are tokens: files of different lengths, and columns of offsets.
    pub fn is_tokens(&self) -> bool {
        self.text(KIND) == Some(TOKENS)
    }

    /// Returns the columns of tokens that come from a table.
    pub(in crate::dataset) fn kept(&self) -> Vec<&str> {
        let names = self.text(KEPT_COLUMNS).filter(|names| !names.is_empty() && self.is_tokens());
        names.map_or_else(Vec::new, |names| names.split(',').collect())
    }

    /// Returns the columns of tokens that have several entries per row, and where their rows begin.
    pub(in crate::dataset) fn ragged(&self) -> Vec<(String, String)> {
        let own = RAGGED.iter().map(|&(values, offsets)| (values.to_owned(), offsets.to_owned()));
        let kept = self.kept();
        own.chain(kept.iter().map(|&name| (name.to_owned(), offsets_of(name)))).collect()
    }

    /// Returns how the length of a column depends on the number of rows.
    pub(in crate::dataset) fn extent(&self, name: &str) -> Extent {
        if !self.is_tokens() {
            return Extent::Rows;
        }
        match self.ragged().iter().find(|(values, offsets)| values == name || offsets == name) {
            None => Extent::Rows,
            Some((values, _)) if values == name => Extent::Values,
            Some(_) => Extent::Offsets,
        }
    }

    /// Derives the number of rows from the columns, after reading them from a file.
    pub(super) fn settle(&mut self) -> Result<()> {
        let len = |column: &Column| column.len.unwrap_or(0);
        let status = self.columns.iter().find(|column| column.name == "status").or(self.columns.first());
        let n_rows = status.map_or(0, len);
        if let Some(name) = self.kept().into_iter().find(|name| !is_column_name(name)) {
            return Err(Error::corrupt(format!("`{}` cannot be the name of a column", name.escape_debug())));
        }
        let extents: Vec<Extent> = self.columns.iter().map(|column| self.extent(&column.name)).collect();
        for (column, extent) in self.columns.iter_mut().zip(extents) {
            let expected = match extent {
                Extent::Values => None,
                Extent::Offsets => n_rows.checked_add(1),
                Extent::Rows => Some(n_rows),
            };
            if let Some(expected) = expected.filter(|&expected| column.len != Some(expected)) {
                let (name, len) = (&column.name, len(column));
                return Err(Error::corrupt(format!("{name}: {len} entries where {n_rows} rows need {expected}")));
            }
            column.len = column.len.filter(|&len| len != n_rows);
        }
        self.n_rows = n_rows;
        Ok(())
    }

    /// Returns the attribute called `name`, as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Value::as_str)
    }
}

/// How the length of a column of tokens depends on the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dataset) enum Extent {
    /// One entry per row.
    Rows,
    /// One entry per row, and the end of the last one.
    Offsets,
    /// Any number of entries per row, between its offsets.
    Values,
}
