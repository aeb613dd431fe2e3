//! Files of weights, and single arrays.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use melisma::format::safetensors::{Header, TensorEntry};
use melisma::output::{Existing, OutputFile};
use melisma::pack::{self, Archive, Options, ReadAt, Region};
use melisma::runtime::device::available_threads;
use melisma::{Budget, Error, Result};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::source::{Given, Joined, Stoppable, StoppableSink};
use crate::error::raise;
use crate::place;
use crate::signal::{self, Stop};

type Bytes<'py> = Bound<'py, PyArray1<u8>>;
/// Name, safetensors type, shape and bytes.
type Loaded<'py> = (String, String, Vec<u64>, Bytes<'py>);
/// Name, safetensors type and shape.
type Listed = (String, String, Vec<u64>);

/// Bytes of a plain file that are read between two looks at the request to stop.
const READ: usize = 16 << 20;
/// Below this many bytes, starting threads takes longer than decoding.
const SMALL: u64 = 1 << 20;

/// Packs tensors into the file `path`. Returns the bytes of the plain and of the packed file.
#[pyfunction(name = "_pack_save")]
pub fn save(
    py: Python<'_>,
    path: PathBuf,
    tensors: Vec<Given<'_>>,
    metadata: BTreeMap<String, String>,
    tile_size: Option<u32>,
    base: Option<PathBuf>,
) -> PyResult<(u64, u64)> {
    let metadata: Vec<(String, String)> = metadata.into_iter().collect();
    let source = Joined::new(&tensors, &metadata)?;
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
    let work = |stop: &Stop| -> Result<(u64, u64)> {
        let base = base.as_deref().map(open).transpose()?;
        let base = base.as_ref().map(|base| Stoppable { source: base, stop });
        let base = base.as_ref().map(|base| base as &dyn ReadAt);
        let options = Options { tile_size, base, threads: available_threads(), ..Options::new(budget) };
        let mut file = OutputFile::create(&path, Existing::Replace)?;
        let source = Stoppable { source: &source, stop };
        let packed = pack::pack(&source, &mut StoppableSink { sink: &mut file, stop }, &options, &|_| {})?;
        file.commit()?;
        Ok((packed.source_len, packed.packed_len))
    };
    signal::watched(py, work, || Ok(()))
}

/// The tensors of a file, packed or plain, as their source has them: name, type and shape; and its metadata.
#[pyfunction(name = "_pack_list")]
pub fn list<'py>(py: Python<'py>, path: PathBuf) -> PyResult<(Vec<Listed>, Bound<'py, PyDict>)> {
    let header =
        py.detach(|| open(&path).and_then(|file| source_header(&file)).map_err(|error| error.at(path.display())));
    let header = header.map_err(raise)?;
    let metadata = PyDict::new(py);
    for (key, value) in &header.metadata {
        metadata.set_item(key, value)?;
    }
    let tensors = header.tensors.into_iter().map(|tensor| (tensor.name, tensor.dtype, tensor.shape)).collect();
    Ok((tensors, metadata))
}

/// The bytes of tensors of a file, packed or plain: of all, or of those named. A named one may be cut to a region, the
/// first and last row and column of its matrix.
#[pyfunction(name = "_pack_load")]
pub fn load<'py>(
    py: Python<'py>,
    path: PathBuf,
    parts: Option<Vec<(String, Option<[u64; 4]>)>>,
    base: Option<PathBuf>,
) -> PyResult<Vec<Loaded<'py>>> {
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
    let at_path = |error: Error| raise(error.at(path.display()));
    let file = py.detach(|| open(&path)).map_err(raise)?;
    let header = source_header(&file).map_err(at_path)?;
    let parts = chosen(&header, parts).map_err(at_path)?;
    let arrays: Vec<Bytes<'py>> = parts.iter().map(|part| new(py, part.len)).collect::<PyResult<_>>()?;
    {
        let mut held: Vec<_> = arrays.iter().map(PyArrayMethods::readwrite).collect();
        let mut out: Vec<&mut [u8]> =
            held.iter_mut().map(|array| array.as_slice_mut()).collect::<std::result::Result<_, _>>()?;
        let mut work = |stop: &Stop| -> Result<()> {
            let base = base.as_deref().map(open).transpose()?;
            let base = base.as_ref().map(|base| Stoppable { source: base, stop });
            let base = base.as_ref().map(|base| base as &dyn ReadAt);
            read(&Stoppable { source: &file, stop }, base, budget, (&header, &parts, &mut out))
                .map_err(|error| error.at(path.display()))
        };
        signal::watched(py, |stop| work(stop), || Ok(()))?;
    }
    let loaded = parts.into_iter().zip(arrays);
    Ok(loaded.map(|(Part { tensor, .. }, array)| (tensor.name, tensor.dtype, tensor.shape, array)).collect())
}

fn new(py: Python<'_>, len: u64) -> PyResult<Bytes<'_>> {
    Ok(py.import("numpy")?.call_method1("empty", (len, "u1"))?.cast_into()?)
}

/// A tensor that is read, or a region of it.
struct Part {
    tensor: TensorEntry,
    region: Option<Region>,
    /// Bytes.
    len: u64,
}

fn chosen(header: &Header, parts: Option<Vec<(String, Option<[u64; 4]>)>>) -> Result<Vec<Part>> {
    let whole = |tensor: &TensorEntry| Part { tensor: tensor.clone(), region: None, len: tensor.len() };
    let Some(parts) = parts else { return Ok(header.tensors.iter().map(whole).collect()) };
    let find = |(name, bounds): (String, Option<[u64; 4]>)| {
        let tensor = header.get(&name).ok_or_else(|| Error::invalid(format!("unknown tensor `{name}`")))?;
        let Some([top, bottom, first, last]) = bounds else { return Ok(whole(tensor)) };
        let region = Region { rows: top..bottom, cols: first..last };
        let len = region.len() * region.element_len(tensor)?;
        Ok(Part { tensor: tensor.clone(), region: Some(region), len })
    };
    parts.into_iter().map(find).collect()
}

fn read(
    source: &dyn ReadAt,
    base: Option<&dyn ReadAt>,
    budget: &Budget,
    (header, parts, out): (&Header, &[Part], &mut [&mut [u8]]),
) -> Result<()> {
    let mut each = parts.iter().zip(out);
    if !pack::is_packed(source)? {
        return each.try_for_each(|(part, out)| read_plain(source, header, part, out));
    }
    let mut archive = Archive::open(source, budget)?;
    if let Some(base) = base {
        archive = archive.with_base(base)?;
    }
    let mut whole = Vec::new();
    for (part, out) in each {
        match &part.region {
            Some(region) => archive.unpack_region(&part.tensor.name, region, out, threads_for(part.len))?,
            None => whole.push((part.tensor.name.as_str(), &mut **out)),
        }
    }
    let len = whole.iter().map(|(_, out)| out.len() as u64).sum();
    archive.unpack_into(whole, threads_for(len))
}

/// Threads that decode `len` bytes.
fn threads_for(len: u64) -> usize {
    if len < SMALL { 1 } else { available_threads() }
}

fn read_plain(source: &dyn ReadAt, header: &Header, part: &Part, out: &mut [u8]) -> Result<()> {
    let whole = Region::whole(&part.tensor);
    let region = part.region.as_ref().unwrap_or(&whole);
    let start = header.len + part.tensor.bytes[0];
    let (n_cols, width) = (whole.cols.end, part.len.checked_div(region.len()).unwrap_or(0));
    // Rows that are read whole follow each other.
    let row_len = if region.cols == whole.cols { part.len } else { (region.cols.end - region.cols.start) * width };
    for (row, out) in (region.rows.start..).zip(out.chunks_mut((row_len as usize).max(1))) {
        let at = start + (row * n_cols + region.cols.start) * width;
        for (index, block) in out.chunks_mut(READ).enumerate() {
            source.read_at(at + (index * READ) as u64, block)?;
        }
    }
    Ok(())
}

pub(super) fn open(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|error| Error::io(path.display(), error))?;
    match file.metadata() {
        Ok(data) if data.is_file() => Ok(file),
        _ => Err(Error::invalid(format!("{}: this is not a file", path.display()))),
    }
}

/// The header of the plain file: that of a packed file's source, or its own.
fn source_header(file: &File) -> Result<Header> {
    if pack::is_packed(file)? { pack::source_header(file) } else { Header::read(file) }
}

/// One array as a packed file in memory.
#[pyfunction(name = "_compress")]
pub fn compress<'py>(
    py: Python<'py>,
    dtype: &str,
    shape: Vec<u64>,
    bytes: PyReadonlyArray1<'py, u8>,
) -> PyResult<Bound<'py, PyBytes>> {
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
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

/// The type and shape of the array of a packed file in memory.
#[pyfunction(name = "_compressed")]
pub fn compressed(blob: &[u8]) -> PyResult<(String, Vec<u64>)> {
    let header = pack::source_header(&blob).map_err(raise)?;
    let entry = only(&header).map_err(raise)?;
    Ok((entry.dtype.clone(), entry.shape.clone()))
}

/// Writes the bytes of the array of a packed file in memory to `out`.
#[pyfunction(name = "_decompress")]
pub fn decompress(py: Python<'_>, blob: &[u8], mut out: PyReadwriteArray1<'_, u8>) -> PyResult<()> {
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
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
        tensors => Err(Error::invalid(format!("a packed file of {} tensors", tensors.len()))
            .with_hint("melisma.pack.load_file reads it from a file")),
    }
}
