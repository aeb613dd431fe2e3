//! Conversion between numpy arrays and tensors.

use half::f16;
use melisma::runtime::device::{Device, Queue};
use melisma::runtime::memory::Budget;
use melisma::{DType, Element, Error, Result, Tensor};
use numpy::{PyArray1, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::raise;

/// Copies an array with any axis order into a tensor in host memory.
pub fn copied(value: &Bound<'_, PyAny>, budget: &Budget) -> PyResult<Tensor> {
    let value = &native(value)?;
    match name(untyped(value)?)?.as_str() {
        "float32" => copied_of::<f32>(value, budget),
        "float16" => copied_of::<f16>(value, budget),
        "int64" => copied_of::<i64>(value, budget),
        "int32" => copied_of::<i32>(value, budget),
        "int16" => copied_of::<i16>(value, budget),
        "uint8" => copied_of::<u8>(value, budget),
        other => Err(raise(unknown(other))),
    }
}

fn copied_of<T: Element + numpy::Element>(value: &Bound<'_, PyAny>, budget: &Budget) -> PyResult<Tensor> {
    let array = value.cast::<PyArrayDyn<T>>()?.try_readonly()?;
    let shape = array.shape();
    if array.is_c_contiguous() {
        let values = array.as_slice()?;
        return value.py().detach(|| Tensor::from_slice(budget, values, shape)).map_err(raise);
    }
    let view = array.as_array();
    let copy = || -> Result<Tensor> {
        let mut tensor = Tensor::new(&Device::cpu()?, budget, T::DTYPE, shape)?;
        let out = tensor.view_mut::<T>()?.host()?;
        out.iter_mut().zip(view.iter()).for_each(|(to, from)| *to = *from);
        Ok(tensor)
    };
    value.py().detach(copy).map_err(raise)
}

/// Copies the elements of `tensor` into a new array.
pub fn from_tensor<'py>(py: Python<'py>, tensor: &Tensor, queue: &Queue) -> PyResult<Bound<'py, PyAny>> {
    match tensor.dtype() {
        DType::F32 => array_of::<f32>(py, tensor, queue),
        DType::F16 => array_of::<f16>(py, tensor, queue),
        DType::I64 => array_of::<i64>(py, tensor, queue),
        DType::I32 => array_of::<i32>(py, tensor, queue),
        DType::I16 => array_of::<i16>(py, tensor, queue),
        DType::U8 => array_of::<u8>(py, tensor, queue),
        other => {
            let error = Error::unsupported(format!("numpy has no arrays of {}", other.name()));
            Err(raise(error.with_hint("optimize_tensor(tensor, \"float32\") widens it")))
        }
    }
}

fn array_of<'py, T: Element + numpy::Element>(
    py: Python<'py>,
    tensor: &Tensor,
    queue: &Queue,
) -> PyResult<Bound<'py, PyAny>> {
    let values = py.detach(|| tensor.to_vec::<T>(queue)).map_err(raise)?;
    Ok(PyArray1::from_vec(py, values).reshape(tensor.shape())?.into_any())
}

/// Reads `float16`, `fp16`, `f16`, a numpy dtype or scalar type, or nothing.
pub fn dtype(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    let Some(value) = value else { return Ok(None) };
    let name = match value.cast::<PyString>() {
        Ok(name) => name.to_string(),
        Err(_) => value.py().import("numpy")?.call_method1("dtype", (value,))?.getattr("name")?.extract()?,
    };
    match name.as_str() {
        "float32" | "fp32" | "f32" => Ok(Some(DType::F32)),
        "float16" | "fp16" | "f16" => Ok(Some(DType::F16)),
        "bfloat16" | "bf16" => Ok(Some(DType::BF16)),
        other => Err(raise(
            Error::invalid(format!("tensors are not converted to the type `{other}`"))
                .with_hint("use float32, float16 or bfloat16"),
        )),
    }
}

/// Returns the array in native byte order at aligned addresses: itself, or a copy.
pub fn native<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let array = untyped(value)?;
    let dtype = array.dtype();
    if dtype.is_native_byteorder() == Some(false) {
        return value.call_method1("astype", (dtype.call_method1("newbyteorder", ("=",))?,));
    }
    if array.is_aligned() { Ok(value.clone()) } else { value.call_method0("copy") }
}

/// Returns the element type's name in numpy; pass arrays of another byte order through [`native`] first.
pub fn name(array: &Bound<'_, PyUntypedArray>) -> PyResult<String> {
    let dtype = array.dtype();
    if dtype.is_native_byteorder() == Some(false) {
        return Err(raise(unknown("another byte order")));
    }
    dtype.getattr("name")?.extract()
}

/// Casts to an array of any type.
pub fn untyped<'a, 'py>(value: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    value.cast().map_err(|_| raise(not_an_array(value)))
}

/// Returns the Python objects of a JSON text.
pub fn parsed<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

fn not_an_array(value: &Bound<'_, PyAny>) -> Error {
    let name = value.get_type().name().map_or_else(|_| "it".to_owned(), |name| name.to_string());
    Error::invalid(format!("{name} is neither a numpy array nor a melisma.Tensor")).with_hint("use numpy.asarray")
}

pub fn unknown(name: &str) -> Error {
    Error::unsupported(format!("an array of {name}")).with_hint("array.astype(numpy.float32) makes one that fits")
}
