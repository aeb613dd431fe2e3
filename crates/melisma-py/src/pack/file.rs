//! Packs files of weights, and packs and unpacks single arrays.

use std::collections::BTreeMap;
use std::path::PathBuf;

use melisma::format::safetensors::{Header, TensorEntry};
use melisma::output::{Existing, OutputFile};
use melisma::pack::{self, Archive, Options, ReadAt};
use melisma::runtime::device::available_threads;
use melisma::{Error, Result};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::open::{SMALL, open, threads_for};
use super::source::{Joined, Stoppable, StoppableSink, TensorArg};
use crate::error::raise;
use crate::exec_context;
use crate::signal::{self, Stop};

/// Packs tensors into the file `path`. Returns the bytes of the plain and of the packed file.
#[pyfunction(name = "_pack_save")]
pub fn save(
    py: Python<'_>,
    path: PathBuf,
    tensors: Vec<TensorArg<'_>>,
    metadata: BTreeMap<String, String>,
    tile_size: Option<u32>,
    base: Option<PathBuf>,
) -> PyResult<(u64, u64)> {
    let metadata: Vec<(String, String)> = metadata.into_iter().collect();
    let source = Joined::new(&tensors, &metadata)?;
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let work = |stop: &Stop| -> Result<(u64, u64)> {
        let base = base.as_deref().map(open).transpose()?;
        let base = base.as_ref().map(|base| Stoppable { source: base, stop });
        let base = base.as_ref().map(|base| base as &dyn ReadAt);
        let mut options = Options::new(budget).with_tile_size(tile_size).with_threads(available_threads());
        options.base = base;
        let mut file = OutputFile::create(&path, Existing::Replace)?;
        let source = Stoppable { source: &source, stop };
        let packed = pack::pack(&source, &mut StoppableSink { sink: &mut file, stop }, &options, &|_| {})?;
        stop.check()?;
        file.commit()?;
        Ok((packed.source_len, packed.packed_len))
    };
    signal::watched(py, work, || Ok(()))
}

/// Packs one array as a packed file in memory.
#[pyfunction(name = "_compress")]
pub fn compress<'py>(
    py: Python<'py>,
    dtype: &str,
    shape: Vec<u64>,
    bytes: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyBytes>> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let array = pack::Array::from_bytes(dtype, &shape, bytes.as_slice()?);
    let work = |stop: &Stop| -> Result<Vec<u8>> {
        let mut packed = Vec::new();
        pack::compress_into(&array, &mut StoppableSink { sink: &mut packed, stop }, budget)?;
        Ok(packed)
    };
    let packed = if array.bytes().len() < SMALL as usize {
        py.detach(|| work(&Stop::default())).map_err(raise)?
    } else {
        signal::watched(py, work, || Ok(()))?
    };
    Ok(PyBytes::new(py, &packed))
}

/// Returns the type and shape of the array of a packed file in memory.
#[pyfunction(name = "_compressed_info")]
pub fn compressed(blob: &[u8]) -> PyResult<(String, Vec<u64>)> {
    let header = pack::source_header(&blob).map_err(raise)?;
    let entry = only(&header).map_err(raise)?;
    Ok((entry.dtype.clone(), entry.shape.clone()))
}

/// Writes the bytes of the array of a packed file in memory to `out`.
#[pyfunction(name = "_decompress")]
pub fn decompress(py: Python<'_>, blob: &[u8], mut out: PyReadwriteArray1<'_, u8>) -> PyResult<()> {
    let exec = exec_context::shared(py, Some("cpu"))?;
    let budget = exec.get()?.context.budget();
    let out = out.as_slice_mut()?;
    let is_small = out.len() < SMALL as usize;
    let mut work = |stop: &Stop| -> Result<()> {
        let source = Stoppable { source: &blob, stop };
        let archive = Archive::open(&source, budget)?;
        let entry = only(archive.source())?;
        archive.check_hash()?;
        let threads = threads_for(entry.len());
        archive.unpack_into(vec![(&entry.name, &mut *out)], threads)
    };
    match is_small {
        true => py.detach(|| work(&Stop::default())).map_err(raise),
        false => signal::watched(py, work, || Ok(())),
    }
}

fn only(header: &Header) -> Result<&TensorEntry> {
    match &header.tensors[..] {
        [entry] => Ok(entry),
        tensors => Err(Error::invalid(format!("expected one packed tensor, found {}", tensors.len()))
            .with_hint("melisma.pack.load_file reads it from a file")),
    }
}
