//! Files of weights, and single arrays.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use melisma::format::safetensors::{Header, TensorEntry};
use melisma::output::{Existing, OutputFile};
use melisma::pack::{self, Archive, Options, ReadAt};
use melisma::runtime::device::available_threads;
use melisma::{Budget, Error, Result};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::source::{Given, Joined, Stoppable};
use crate::error::raise;
use crate::place;
use crate::signal::{self, Stop};

type Bytes<'py> = Bound<'py, PyArray1<u8>>;
/// Name, safetensors type, shape and bytes.
type Loaded<'py> = (String, String, Vec<u64>, Bytes<'py>);
/// Name, safetensors type and shape.
type Listed = (String, String, Vec<u64>);

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
        let base = base.as_ref().map(|base| base as &dyn ReadAt);
        let options = Options { tile_size, base, threads: available_threads(), ..Options::new(budget) };
        let mut file = OutputFile::create(&path, Existing::Replace)?;
        let source = Stoppable { source: &source, stop };
        let packed = pack::pack(&source, &mut file, &options, &|_| {})?;
        stop.check()?;
        file.commit()?;
        Ok((packed.source_len, packed.packed_len))
    };
    signal::watched(py, |stop| work(stop).map_err(raise), || Ok(()))
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

/// The bytes of tensors of a file, packed or plain: of those called `names`, or of all.
#[pyfunction(name = "_pack_load")]
pub fn load<'py>(
    py: Python<'py>,
    path: PathBuf,
    names: Option<Vec<String>>,
    base: Option<PathBuf>,
) -> PyResult<Vec<Loaded<'py>>> {
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
    let file = py.detach(|| open(&path)).map_err(raise)?;
    let header = source_header(&file).map_err(|error| raise(error.at(path.display())))?;
    let chosen = chosen(&header, names).map_err(|error| raise(error.at(path.display())))?;
    let numpy = py.import("numpy")?;
    let new = |len: u64| -> PyResult<Bytes<'py>> { Ok(numpy.call_method1("empty", (len, "u1"))?.cast_into()?) };
    let arrays: Vec<Bytes<'py>> = chosen.iter().map(|tensor| new(tensor.len())).collect::<PyResult<_>>()?;
    {
        let mut held: Vec<_> = arrays.iter().map(PyArrayMethods::readwrite).collect();
        let mut out: Vec<&mut [u8]> =
            held.iter_mut().map(|array| array.as_slice_mut()).collect::<std::result::Result<_, _>>()?;
        let mut work = |stop: &Stop| -> Result<()> {
            let base = base.as_deref().map(open).transpose()?;
            let source = Stoppable { source: &file, stop };
            read(&source, base.as_ref().map(|base| base as &dyn ReadAt), budget, (&header, &chosen, &mut out))
        };
        signal::watched(py, |stop| work(stop).map_err(|error| raise(error.at(path.display()))), || Ok(()))?;
    }
    let loaded = chosen.into_iter().zip(arrays);
    Ok(loaded.map(|(tensor, array)| (tensor.name, tensor.dtype, tensor.shape, array)).collect())
}

fn read(
    source: &dyn ReadAt,
    base: Option<&dyn ReadAt>,
    budget: &Budget,
    (header, tensors, out): (&Header, &[TensorEntry], &mut [&mut [u8]]),
) -> Result<()> {
    if !pack::is_packed(source)? {
        let each = tensors.iter().zip(out);
        return each.into_iter().try_for_each(|(tensor, out)| source.read_at(header.len + tensor.bytes[0], out));
    }
    let mut archive = Archive::open(source, budget)?;
    if let Some(base) = base {
        archive = archive.with_base(base)?;
    }
    for (tensor, out) in tensors.iter().zip(out) {
        let threads = if tensor.len() < SMALL { 1 } else { available_threads() };
        archive.unpack_tensor(&tensor.name, &mut &mut **out, threads)?;
    }
    Ok(())
}

fn chosen(header: &Header, names: Option<Vec<String>>) -> Result<Vec<TensorEntry>> {
    let Some(names) = names else { return Ok(header.tensors.clone()) };
    let find =
        |name: &String| header.get(name).cloned().ok_or_else(|| Error::invalid(format!("unknown tensor `{name}`")));
    names.iter().map(find).collect()
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
    Ok(PyBytes::new(py, &py.detach(|| pack::compress(&array, budget)).map_err(raise)?))
}

/// The array of a packed file in memory: its type, shape and bytes.
#[pyfunction(name = "_decompress")]
pub fn decompress<'py>(py: Python<'py>, blob: &[u8]) -> PyResult<(String, Vec<u64>, Bytes<'py>)> {
    let place = place::shared(py, Some("cpu"))?;
    let budget = place.get()?.budget();
    let array = py.detach(|| pack::decompress(blob, budget)).map_err(raise)?;
    Ok((array.dtype().to_owned(), array.shape().to_vec(), PyArray1::from_slice(py, array.bytes())))
}
