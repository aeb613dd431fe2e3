//! A corpus of tokens whose rows the caller makes, in any order: nobody knows how long a row is before it is made.
//!
//! Until the last row is done, the rows lie in `OUT.partial` in the order in which they came, and the journal says
//! which they are. Then they become a dataset, in the order of the plan.

mod assembly;
mod spool;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use spool::Spool;

use super::failure::{Action, Failure, RowFailure, in_order};
use super::input::text;
use super::store::lines::Lines;
use super::store::lines::origin::Origin;
use super::store::paths::{Paths, beside};
use super::store::{Kind, Store, guard};
use crate::output::{self, Existing};
use crate::snac::{Codes, Model};
use crate::{Error, Result};

/// The attribute that identifies what a corpus was asked for.
const REQUEST: &str = "request";

/// A row that will be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its number among those of all shards, which increases from row to row.
    pub index: u32,
    /// Its entry in the column `path`.
    pub name: String,
    /// Its entry in the column `text`.
    pub text: String,
    /// Its entries in the columns that [`Gather::with_kept`] names.
    pub kept: Vec<String>,
}

/// A corpus of tokens whose rows the caller makes.
#[derive(Debug)]
pub struct Gather {
    model: Arc<Model>,
    output: PathBuf,
    rows: Vec<Source>,
    request: String,
    kept: Vec<String>,
    settings: Map<String, Value>,
    refused: Vec<RowFailure>,
    inputs: Vec<PathBuf>,
    shard: (usize, usize),
    store: Kind,
    lines: Option<Lines>,
    existing: Existing,
}

/// A corpus whose rows are being made. Rows that are done stay on disk when it is dropped.
#[derive(Debug)]
pub struct Gathering {
    gather: Gather,
    paths: Paths,
    /// `None` if the corpus was finished before.
    spool: Option<Spool>,
    n_resumed: usize,
}

/// A finished corpus.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gathered {
    /// Its rows.
    pub rows: usize,
    /// Rows that an earlier run made.
    pub rows_resumed: usize,
    /// Frames of all rows; `None` for lines that were finished before.
    pub frames: Option<u64>,
    /// The rows that were refused or failed, in order.
    pub failures: Vec<Failure>,
}

impl Source {
    /// The most bytes of a text.
    pub const MAX_TEXT: usize = text::MAX_TEXT;
}

impl Gather {
    /// Plans `rows` of codes of `model` in `output`, a safetensors file. `request` identifies everything that the codes
    /// of all shards depend on: a corpus or unfinished work of another request is not continued.
    pub fn new(
        model: impl Into<Arc<Model>>,
        output: impl Into<PathBuf>,
        rows: Vec<Source>,
        request: impl Into<String>,
    ) -> Self {
        Self {
            model: model.into(),
            output: output.into(),
            rows,
            request: request.into(),
            kept: Vec::new(),
            settings: Map::new(),
            refused: Vec::new(),
            inputs: Vec::new(),
            shard: (0, 1),
            store: Kind::Safetensors,
            lines: None,
            existing: Existing::Refuse,
        }
    }

    setters! {
        /// Sets the columns beside that of the texts.
        pub fn with_kept(kept: Vec<String>);
        /// Sets what the attribute `config` says beside the model.
        pub fn with_settings(settings: Map<String, Value>);
        /// Sets the files that the output may not replace.
        pub fn with_inputs(inputs: Vec<PathBuf>);
        /// Sets the format of the corpus.
        pub fn with_store(store: Kind);
        /// Sets a text file with one line for each row; the store is then the format of unfinished work.
        pub fn with_lines(lines: Lines);
        /// Sets whether an existing corpus, or unfinished work of another request, may be replaced.
        pub fn with_existing(existing: Existing);
    }

    /// Sets that these rows are those of part `index` of `n` parts, counted from 0.
    #[must_use]
    pub fn with_shard(mut self, index: usize, n: usize) -> Self {
        self.shard = (index, n);
        self
    }

    /// Lists something that has no row: its number among all, its name, and why.
    pub fn refuse(&mut self, index: u32, name: String, error: &Error) {
        let failure = Failure::new(name, super::failure::TEXT_STAGE, error, Action::Skipped);
        self.refused.push(RowFailure { file: index, row: 0, failure });
    }

    /// Opens what an earlier run of the same request left, or begins anew.
    ///
    /// # Errors
    /// The output exists with another request and may not be replaced, another process works on it, or a file cannot
    /// be read or written.
    pub fn begin(self) -> Result<Gathering> {
        output::target(&self.output, self.existing)?;
        let paths = Paths::new(&self.output)?;
        guard::spare(&paths, self.inputs.iter().map(PathBuf::as_path))?;
        if self.existing == Existing::Replace {
            guard::output(&self.output)?;
        } else if self.output.exists() {
            if !self.is_finished(&paths.output)? {
                return Err(guard::already(&self.output, ", and is not of this request"));
            }
            if guard::beside(&paths, Kind::Safetensors, Existing::Refuse).is_ok() {
                paths.clear()?;
            }
            let n_resumed = self.rows.len();
            return Ok(Gathering { gather: self, paths, spool: None, n_resumed });
        }
        guard::beside(&paths, Kind::Safetensors, self.existing)?;
        guard::beside(&assembled(&paths), self.store, self.existing)?;
        let spool = Spool::open(&paths, &self)?;
        let n_resumed = spool.n_done();
        Ok(Gathering { gather: self, paths, spool: Some(spool), n_resumed })
    }

    /// Returns the shard, as the attribute says it.
    fn shard(&self) -> Option<String> {
        (self.shard.1 > 1).then(|| format!("{}/{}", self.shard.0 + 1, self.shard.1))
    }

    /// Returns the settings that the journal records, for messages about what has changed.
    fn recorded(&self) -> Map<String, Value> {
        let shard = self.shard().map(|shard| ("shard".to_owned(), Value::from(shard)));
        let model = ("model".to_owned(), Value::from(self.model.hash()));
        self.settings.clone().into_iter().chain(shard).chain([model]).collect()
    }

    /// Returns whether the output is the finished corpus of this request.
    fn is_finished(&self, path: &Path) -> Result<bool> {
        let shard = self.shard();
        let is_ours = |attributes: &Map<String, Value>| {
            let text = |name: &str| attributes.get(name).and_then(Value::as_str);
            text(REQUEST) == Some(&self.request) && text("shard") == shard.as_deref()
        };
        match self.lines {
            None => Ok(Store::open(path).is_ok_and(|store| is_ours(&store.layout.attributes))),
            Some(lines) => match Origin::open(path) {
                Ok(origin) if origin.lines == lines && is_ours(&origin.attributes) => origin.check(path).map(|()| true),
                _ => Ok(false),
            },
        }
    }
}

impl Gathering {
    /// Returns whether row `row` of the plan was made, or has failed.
    pub fn is_done(&self, row: usize) -> bool {
        self.spool.as_ref().is_none_or(|spool| spool.is_done(row))
    }

    /// Takes the codes of a row.
    ///
    /// # Errors
    /// The row is done already, the codes are of another model, or the disk is full.
    pub fn push(&mut self, row: usize, codes: &Codes) -> Result<()> {
        self.spool(row)?.push(row, codes)
    }

    /// Lists a row that cannot be made.
    ///
    /// # Errors
    /// The row is done already, or the disk is full.
    pub fn fail(&mut self, row: usize, error: &Error) -> Result<()> {
        let Source { index, name, .. } = self.gather.rows.get(row).ok_or_else(|| beyond(row))?;
        let failure = Failure::new(name.clone(), "compute", error, Action::Skipped);
        let failed = RowFailure { file: *index, row: row as u32, failure };
        self.spool(row)?.fail(row, failed)
    }

    fn spool(&mut self, row: usize) -> Result<&mut Spool> {
        if row >= self.gather.rows.len() {
            return Err(beyond(row));
        }
        let spool = self.spool.as_mut().filter(|spool| !spool.is_done(row));
        spool.ok_or_else(|| Error::invalid(format!("row {row} is done already")))
    }

    /// Writes the corpus.
    ///
    /// # Errors
    /// A row is missing, the output exists by now, or the disk is full. The rows stay on disk.
    pub fn finish(self) -> Result<Gathered> {
        let Self { gather, paths, spool, n_resumed } = self;
        let Some(spool) = spool else {
            let (rows, frames) = match gather.lines {
                Some(_) => (Origin::open(&paths.output)?.rows, None),
                None => {
                    let layout = Store::open(&paths.output)?.layout;
                    let codes = &layout.columns[layout.column("codes")?];
                    (layout.n_rows, Some(layout.len(codes)))
                }
            };
            let failures = paths.read_failures();
            return Ok(Gathered { rows: rows as usize, rows_resumed: n_resumed, frames, failures });
        };
        if let Some(row) = (0..gather.rows.len()).find(|&row| !spool.is_done(row)) {
            return Err(Error::invalid(format!("row {row} was not made")));
        }
        let failures = in_order(gather.refused.iter().chain(spool.failures()).cloned().collect());
        let built = assembled(&paths);
        let store = assembly::assemble(&gather, &spool, &built)?;
        paths.write_failures(&failures)?;
        match &gather.lines {
            None => built.publish(gather.existing)?,
            Some(lines) => {
                lines.write(&store, &paths.output, gather.existing)?;
                guard::remove(&built.partial)?;
            }
        }
        paths.clear()?;
        let rows = store.layout.n_rows as usize;
        Ok(Gathered { rows, rows_resumed: n_resumed, frames: Some(spool.n_frames()), failures })
    }
}

/// Returns the paths of the dataset that the rows become.
fn assembled(paths: &Paths) -> Paths {
    let partial = beside(&paths.output, ".assembled");
    Paths { journal: beside(&partial, ".journal"), partial, ..paths.clone() }
}

fn beyond(row: usize) -> Error {
    Error::invalid(format!("the plan has no row {row}"))
}
