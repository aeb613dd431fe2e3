//! Arrays for results: `out`, or new ones.

use melisma::Error;
use numpy::ndarray::{Dimension, IntoDimension};
use numpy::{
    Element, PyArray, PyArrayDescrMethods, PyArrayMethods, PyReadwriteArray, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::error::raise;

/// Returns `out`, if it has this type and shape in C order, or else a new array.
pub fn target<'py, T: Element, S: IntoDimension>(
    py: Python<'py>,
    out: Option<&Bound<'py, PyAny>>,
    shape: S,
) -> PyResult<Bound<'py, PyArray<T, S::Dim>>> {
    let shape = shape.into_dimension();
    let Some(out) = out else {
        // Through Python, which raises MemoryError if the allocation fails.
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let empty = EMPTY.import(py, "numpy", "empty")?;
        return Ok(empty.call1((PyTuple::new(py, shape.slice())?, T::get_dtype(py)))?.cast_into()?);
    };
    let needed = || format!("{:?} of {} in C order is needed", shape.slice(), name::<T>(py));
    let given = out.cast::<PyUntypedArray>().map_err(|_| wrong(&format!("not an array; {}", needed())))?;
    let fits = given.shape() == shape.slice() && given.is_c_contiguous();
    match out.cast::<PyArray<T, S::Dim>>() {
        Ok(array) if fits => Ok(array.clone()),
        _ => Err(wrong(&format!("found shape {:?} of {}; {}", given.shape(), given.dtype(), needed()))),
    }
}

/// Borrows the elements of a target for the time of one call.
pub fn writable<'py, T: Element, D: Dimension>(
    target: &Bound<'py, PyArray<T, D>>,
) -> PyResult<PyReadwriteArray<'py, T, D>> {
    target.try_readwrite().map_err(|error| wrong(&error.to_string()))
}

fn name<T: Element>(py: Python<'_>) -> String {
    T::get_dtype(py).typeobj().name().map_or_else(|_| "other elements".to_owned(), |name| name.to_string())
}

fn wrong(text: &str) -> PyErr {
    raise(Error::invalid(format!("out: {text}")))
}
