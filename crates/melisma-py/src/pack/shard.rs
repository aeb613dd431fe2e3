//! Sharded checkpoints.

use std::path::{Path, PathBuf};

use melisma::output::{Existing, OutputFile};
use melisma::pack::{self, Converted, Index, Options, ReadAt, packed_path};
use melisma::{Error, Result};
use pyo3::prelude::*;

use super::source::Stoppable;
use crate::error::raise;
use crate::exec_context;
use crate::signal::{self, Stop};

/// Returns where the index of the packed files goes, and each file of a sharded checkpoint with its packed file.
#[pyfunction(name = "_pack_index")]
pub fn index(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<(String, String)>)> {
    let shown = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::invalid(format!("{}: the path is not UTF-8", path.display())))
    };
    let work = || -> Result<_> {
        let index = Index::open(&path)?;
        let pair = |(shard, _): &(String, _)| {
            let source = index.beside(shard);
            Ok((shown(&source)?, shown(&packed_path(&source))?))
        };
        Ok((shown(&index.packed_path())?, index.shards.iter().map(pair).collect::<Result<_>>()?))
    };
    py.detach(work).map_err(raise)
}

/// Writes the index of the packed files, and returns its path.
#[pyfunction(name = "_pack_write_index")]
pub fn write_index(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let work = || {
        let index = Index::open(&path)?;
        index.write_packed(Existing::Replace)?;
        Ok(index.packed_path().display().to_string())
    };
    py.detach(work).map_err(raise)
}

/// Packs one file of weights into another, and returns the bytes of both.
#[pyfunction(name = "_pack_file")]
pub fn pack_file(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    tile_size: Option<u32>,
    threads: usize,
) -> PyResult<(u64, u64)> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let work = |stop: &Stop| -> Result<(u64, u64)> {
        let file = pack::open(&source)?;
        let converted = if pack::is_checkpoint(&file) { Some(Converted::read(&file)?) } else { None };
        let plain: &dyn ReadAt = converted.as_ref().map_or(&file, |converted| converted);
        let options = Options::new(budget).with_tile_size(tile_size).with_threads(threads);
        let mut out = OutputFile::create(&target, Existing::Replace)?;
        let packed = pack::pack(&Stoppable { source: plain, stop }, &mut out, &options, &|_| {})?;
        stop.check()?;
        out.commit()?;
        Ok((packed.source_len, packed.packed_len))
    };
    signal::watched(py, |stop| work(stop).map_err(|error| error.at(source.display())), || Ok(()))
}
