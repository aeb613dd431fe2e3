//! Elementwise operations on tensors, and in place on arrays.

use half::f16;
use melisma::tensor::{Factor, Operation, Scalar, TensorOptimizer, Values};
use melisma::{Error, Tensor};
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::array;
use crate::error::raise;
use crate::tensor::{Operand, PyTensor};

/// Parses the name of an operation.
pub fn operation(name: &str) -> PyResult<Operation> {
    let name_of = |operation: &Operation| format!("{operation:?}").to_lowercase();
    Operation::ALL.into_iter().find(|operation| name_of(operation) == name).ok_or_else(|| {
        let names: Vec<String> = Operation::ALL.iter().map(name_of).collect();
        let error = Error::invalid(format!("no operation is called `{name}`"));
        raise(error.with_hint(format!("the operations are {}", names.join(", "))))
    })
}

/// Applies a number, a tensor or an array to a tensor.
pub fn combine(tools: &TensorOptimizer, operation: Operation, y: &mut Tensor, x: &Bound<'_, PyAny>) -> PyResult<()> {
    let outcome = match number(x) {
        Some(number) => x.py().detach(|| tools.combine_in_place(operation, y, number)),
        None => {
            let operand = Operand::take(x, tools.memory().budget())?;
            let operand = operand.tensor();
            x.py().detach(|| tools.combine_in_place(operation, y, Factor::Tensor(operand)))
        }
    };
    outcome.map_err(raise)
}

/// Modifies a tensor or an array in place.
pub fn combine_in_place(
    tools: &TensorOptimizer,
    operation: Operation,
    y: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if let Ok(tensor) = y.cast::<PyTensor>() {
        let copied = || {
            let (queue, budget) = (tools.queue(), tools.memory().budget());
            let tensor = Operand::take(x, budget)?.owned(x.py(), queue, budget)?;
            Bound::new(x.py(), PyTensor { tensor, queue: queue.clone() })
        };
        let copy = x.is(y).then(copied).transpose()?;
        let x = copy.as_ref().map_or(x, |copy| copy.as_any());
        return combine(tools, operation, &mut tensor.try_borrow_mut()?.tensor, x);
    }
    match array::name(array::untyped(y)?)?.as_str() {
        "float32" => on_array::<f32>(tools, operation, y, x),
        "float16" => on_array::<f16>(tools, operation, y, x),
        other => Err(raise(array::unknown(other))),
    }
}

fn on_array<T: Scalar + numpy::Element>(
    tools: &TensorOptimizer,
    operation: Operation,
    y: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = y.py();
    let mut array =
        y.cast::<PyArrayDyn<T>>()?.try_readwrite().map_err(|error| raise(Error::invalid(error.to_string())))?;
    if !array.is_c_contiguous() || !array.is_aligned() {
        let text = "an array whose elements do not lie in order at aligned addresses cannot be changed in place";
        return Err(raise(Error::unsupported(text).with_hint("use numpy.require(array, requirements=[\"C\", \"A\"])")));
    }
    if let Some(number) = number(x) {
        let y = array.as_slice_mut()?;
        return py.detach(|| tools.combine_slices(operation, y, Values::All(number))).map_err(raise);
    }
    if x.cast::<PyTensor>().is_err() {
        array::untyped(x)?;
    }
    // The array itself if it has this type and order, otherwise a copy. An array that shares memory
    // with y is copied too.
    let x = py.import("numpy")?.call_method1("require", (x, y.getattr("dtype")?, ["C", "A"]))?;
    let mut x = x.cast_into::<PyArrayDyn<T>>()?;
    if x.shape() != array.shape() {
        let (y, x) = (array.shape(), x.shape());
        return Err(raise(Error::invalid(format!("shapes {y:?} and {x:?} differ"))));
    }
    if x.try_readonly().is_err() {
        x = x.call_method0("copy")?.cast_into()?;
    }
    let x = x.readonly();
    let (y, x) = (array.as_slice_mut()?, x.as_slice()?);
    py.detach(|| tools.combine_slices(operation, y, Values::Each(x))).map_err(raise)
}

/// Returns a plain number, but not an array with one element.
fn number(value: &Bound<'_, PyAny>) -> Option<f32> {
    let is_array = value.cast::<PyTensor>().is_ok() || value.cast::<PyUntypedArray>().is_ok();
    if is_array { None } else { value.extract().ok() }
}
