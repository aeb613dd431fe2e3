//! `Tensor`: elements on the optimizer's device that count against the memory limit.

use melisma::runtime::device::{Device, Queue};
use melisma::runtime::memory::Budget;
use melisma::{Result, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array;
use crate::error::raise;

/// A dense array on the device of the optimizer that created it, counted against its memory limit.
#[pyclass(name = "Tensor", module = "melisma")]
pub struct PyTensor {
    pub tensor: Tensor,
    pub queue: Queue,
}

#[pymethods]
impl PyTensor {
    /// Returns the extents of its axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// Returns the type of its elements: f32, f16, bf16, i64, i32, i16 or u8.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    /// Returns its size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.len() * self.tensor.dtype().size()
    }

    /// Copies its elements to the host.
    ///
    /// Returns:
    ///     A new array.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::from_tensor(py, &self.tensor, &self.queue)
    }

    /// Implements `numpy.asarray`. Always copies.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let error = melisma::Error::invalid("a Tensor cannot be an array without a copy");
            return Err(raise(error));
        }
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __repr__(&self) -> String {
        format!("Tensor({}, {:?})", self.tensor.dtype().name(), self.tensor.shape())
    }
}

/// An operand: a tensor, or a copy of an array.
pub enum Operand<'py> {
    Tensor(PyRef<'py, PyTensor>),
    Array(Tensor),
}

impl<'py> Operand<'py> {
    pub fn take(value: &Bound<'py, PyAny>, budget: &Budget) -> PyResult<Self> {
        match value.cast::<PyTensor>() {
            Ok(tensor) => Ok(Self::Tensor(tensor.try_borrow()?)),
            Err(_) => Ok(Self::Array(array::copied(value, budget)?)),
        }
    }

    pub fn tensor(&self) -> &Tensor {
        match self {
            Self::Tensor(tensor) => &tensor.tensor,
            Self::Array(tensor) => tensor,
        }
    }

    /// Returns an owned tensor: that of an array, or a copy.
    pub fn owned(self, py: Python<'_>, queue: &Queue, budget: &Budget) -> PyResult<Tensor> {
        match self {
            Self::Tensor(tensor) => {
                let tensor = &tensor.tensor;
                py.detach(|| duplicate(tensor, queue, budget)).map_err(raise)
            }
            Self::Array(tensor) => Ok(tensor),
        }
    }
}

/// Copies the tensor on its device.
fn duplicate(tensor: &Tensor, queue: &Queue, budget: &Budget) -> Result<Tensor> {
    let Ok(bytes) = tensor.bytes()?.host() else { return tensor.to(queue, budget) };
    let mut copy = Tensor::new(&Device::cpu()?, budget, tensor.dtype(), tensor.shape())?;
    copy.bytes_mut()?.host()?.copy_from_slice(bytes);
    Ok(copy)
}
