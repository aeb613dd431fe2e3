//! Files of weights, packed or plain, whose tensors are read.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use melisma::format::safetensors::{Header, TensorEntry};
use melisma::pack::{self, Archive, Contents, ReadAt, Region};
use melisma::runtime::device::available_threads;
use melisma::{Budget, Error, Result};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::source::Stoppable;
use crate::error::raise;
use crate::exec_context;
use crate::signal::{self, Stop};

type Bytes<'py> = Bound<'py, PyArray1<u8>>;
/// Name, safetensors type, shape and bytes.
type Loaded<'py> = (String, String, Vec<u64>, Bytes<'py>);
/// Name, safetensors type and shape.
type TensorInfo = (String, String, Vec<u64>);
/// The first and last row and column of a tensor's matrix.
type Bounds = [u64; 4];

/// Bytes of a plain file that are read between two looks at the request to stop.
const READ: usize = 16 << 20;
/// Below this many bytes, starting threads takes longer than decoding.
pub(super) const SMALL: u64 = 1 << 20;

/// A file of weights that is open for reading. Its header and indices have been read.
#[pyclass(name = "PackFile", module = "melisma._melisma", frozen)]
pub struct PyPackFile {
    path: PathBuf,
    file: File,
    /// Those of a packed file.
    contents: Option<Arc<Contents>>,
    /// The header of the plain file: that of a packed file's source, or its own.
    header: Header,
}

#[pymethods]
impl PyPackFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = |file: &File| {
            if pack::is_packed(file)? {
                let contents = Contents::read(file)?;
                let header = contents.source().clone();
                return Ok((Some(Arc::new(contents)), header));
            }
            Ok((None, Header::read(file)?))
        };
        py.detach(|| {
            let file = open(&path)?;
            let (contents, header) = read(&file).map_err(|error: Error| error.at(path.display()))?;
            Ok(Self { path, file, contents, header })
        })
        .map_err(raise)
    }

    /// Returns the tensors as the plain file has them: name, type and shape.
    #[getter]
    fn tensors(&self) -> Vec<TensorInfo> {
        let listed = |tensor: &TensorEntry| (tensor.name.clone(), tensor.dtype.clone(), tensor.shape.clone());
        self.header.tensors.iter().map(listed).collect()
    }

    /// Returns the free-form strings of the plain file.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in &self.header.metadata {
            metadata.set_item(key, value)?;
        }
        Ok(metadata)
    }

    /// Reads the bytes of tensors: of all, or of those named. A named one may be cut to a region,
    /// the first and last row and column of its matrix.
    #[pyo3(signature = (parts=None, base=None))]
    fn load<'py>(
        &self,
        py: Python<'py>,
        parts: Option<Vec<(String, Option<Bounds>)>>,
        base: Option<PathBuf>,
    ) -> PyResult<Vec<Loaded<'py>>> {
        let exec = exec_context::shared(py, Some("cpu"))?;
        let budget = exec.get()?.context.budget();
        let parts = self.chosen(parts).map_err(|error| raise(error.at(self.path.display())))?;
        let arrays: Vec<Bytes<'py>> = parts.iter().map(|part| new(py, part.len)).collect::<PyResult<_>>()?;
        {
            let mut held: Vec<_> = arrays.iter().map(PyArrayMethods::readwrite).collect();
            let mut out: Vec<&mut [u8]> =
                held.iter_mut().map(|array| array.as_slice_mut()).collect::<std::result::Result<_, _>>()?;
            let mut work = |stop: &Stop| -> Result<()> {
                let base = base.as_deref().map(open).transpose()?;
                let base = base.as_ref().map(|base| Stoppable { source: base, stop });
                let base = base.as_ref().map(|base| base as &dyn ReadAt);
                self.read(&Stoppable { source: &self.file, stop }, base, budget, (&parts, &mut out))
                    .map_err(|error| error.at(self.path.display()))
            };
            signal::watched(py, |stop| work(stop), || Ok(()))?;
        }
        let loaded = parts.into_iter().zip(arrays);
        Ok(loaded.map(|(Part { tensor, .. }, array)| (tensor.name, tensor.dtype, tensor.shape, array)).collect())
    }
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

impl PyPackFile {
    fn chosen(&self, parts: Option<Vec<(String, Option<Bounds>)>>) -> Result<Vec<Part>> {
        let whole = |tensor: &TensorEntry| Part { tensor: tensor.clone(), region: None, len: tensor.len() };
        let Some(parts) = parts else { return Ok(self.header.tensors.iter().map(whole).collect()) };
        let find = |(name, bounds): (String, Option<Bounds>)| {
            let tensor = self.header.get(&name).ok_or_else(|| Error::invalid(format!("unknown tensor `{name}`")))?;
            let Some([top, bottom, first, last]) = bounds else { return Ok(whole(tensor)) };
            let region = Region { rows: top..bottom, cols: first..last };
            let len = region.len() * region.element_len(tensor)?;
            Ok(Part { tensor: tensor.clone(), region: Some(region), len })
        };
        parts.into_iter().map(find).collect()
    }

    fn read(
        &self,
        source: &dyn ReadAt,
        base: Option<&dyn ReadAt>,
        budget: &Budget,
        (parts, out): (&[Part], &mut [&mut [u8]]),
    ) -> Result<()> {
        let mut each = parts.iter().zip(out);
        let Some(contents) = &self.contents else {
            return each.try_for_each(|(part, out)| read_plain(source, &self.header, part, out));
        };
        let mut archive = Archive::with(source, Arc::clone(contents), budget);
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
}

/// Returns how many threads decode `len` bytes.
pub(super) fn threads_for(len: u64) -> usize {
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
    let failed = |error| Error::io(path.display(), error);
    // Looked at first: opening a pipe waits for its other end.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::invalid(format!("{}: this is not a file", path.display())));
    }
    File::open(path).map_err(failed)
}
