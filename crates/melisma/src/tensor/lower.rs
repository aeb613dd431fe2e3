//! Converts tensors between float types, and moves them to the device.

use half::{bf16, f16};
use melisma_kernels::matmul::{self, Scalar};
use melisma_kernels::{DType, Element, Isa, Tensor, View, convert};

use super::TensorOptimizer;
use crate::runtime::device::{Device, Queue};
use crate::{Error, ErrorKind, Result};

/// Elements per pass through the float buffer.
const BLOCK: usize = 4096;

/// Converts `tensor` to `dtype` on the device; fails if a finite value would become infinite.
pub fn to(optimizer: &TensorOptimizer, tensor: Tensor, dtype: DType) -> Result<Tensor> {
    match convert(optimizer, &tensor, dtype)? {
        Some(Ok(converted)) => place(optimizer, converted),
        Some(Err((index, value))) => {
            let message = format!("element {index} is {value}, which {} cannot hold", dtype.name());
            Err(Error::new(ErrorKind::Check, message).with_hint("scale the values, or use bf16 or f32"))
        }
        None => place(optimizer, tensor),
    }
}

/// Works like [`to`], but a tensor with values that do not fit `dtype` keeps its type.
pub fn if_it_fits(optimizer: &TensorOptimizer, tensor: Tensor, dtype: DType) -> Result<Tensor> {
    match convert(optimizer, &tensor, dtype)? {
        Some(Ok(converted)) => place(optimizer, converted),
        Some(Err(_)) | None => place(optimizer, tensor),
    }
}

/// Moves `tensor` into device memory.
pub fn place(optimizer: &TensorOptimizer, tensor: Tensor) -> Result<Tensor> {
    let (queue, budget) = (optimizer.queue(), optimizer.memory().budget());
    if matches!(queue, Queue::Cpu(_)) || !is_on_host(&tensor) {
        return Ok(tensor);
    }
    tensor.to(queue, budget)
}

pub fn is_on_host(tensor: &Tensor) -> bool {
    matches!(tensor.bytes(), Ok(View::Host(_)))
}

/// The first finite value that becomes infinite, with its index.
type Overflow = (usize, f32);

/// Returns `None` if the tensor already has that type. A device tensor is read back, because each
/// value is checked.
fn convert(
    optimizer: &TensorOptimizer,
    tensor: &Tensor,
    dtype: DType,
) -> Result<Option<std::result::Result<Tensor, Overflow>>> {
    if tensor.dtype() == dtype {
        return Ok(None);
    }
    let host = Device::cpu()?.queue(optimizer.memory().budget())?;
    let copy = match tensor.dtype() {
        _ if is_on_host(tensor) => None,
        DType::F32 => Some(on_host::<f32>(optimizer, tensor)?),
        DType::F16 => Some(on_host::<f16>(optimizer, tensor)?),
        DType::BF16 => Some(on_host::<bf16>(optimizer, tensor)?),
        other => return Err(not_floats(other)),
    };
    let source = copy.as_ref().unwrap_or(tensor);
    let mut out = Tensor::new(&host.device(), optimizer.memory().budget(), dtype, tensor.shape())?;
    let overflow = match dtype {
        DType::F32 => fill(source, out.view_mut::<f32>()?.host()?)?,
        DType::F16 => fill(source, out.view_mut::<f16>()?.host()?)?,
        DType::BF16 => fill(source, out.view_mut::<bf16>()?.host()?)?,
        other => return Err(not_floats(other)),
    };
    Ok(Some(match overflow {
        None => Ok(out),
        Some(overflow) => Err(overflow),
    }))
}

fn on_host<T: Element>(optimizer: &TensorOptimizer, tensor: &Tensor) -> Result<Tensor> {
    Tensor::from_slice(optimizer.memory().budget(), &tensor.to_vec::<T>(optimizer.queue())?, tensor.shape())
}

fn fill<T: Scalar>(source: &Tensor, out: &mut [T]) -> Result<Option<Overflow>> {
    let isa = Isa::from_env()?;
    let mut floats = [0.0; BLOCK];
    let mut back = [0.0; BLOCK];
    let mut overflow = None;
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let floats = &mut floats[..out.len()];
        widen(isa, source, block * BLOCK, floats)?;
        matmul::store(floats, out);
        if overflow.is_none() {
            let back = &mut back[..out.len()];
            matmul::load(out, back);
            let lost = floats.iter().zip(&*back).position(|(from, to)| from.is_finite() && !to.is_finite());
            overflow = lost.map(|index| (block * BLOCK + index, floats[index]));
        }
    }
    Ok(overflow)
}

/// Reads elements of a host tensor from `first` on, as `T`.
pub fn read<T: Scalar>(tensor: &Tensor, first: usize, out: &mut [T]) -> Result<()> {
    let isa = Isa::from_env()?;
    let mut floats = [0.0; BLOCK];
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let floats = &mut floats[..out.len()];
        widen(isa, tensor, first + block * BLOCK, floats)?;
        matmul::store(floats, out);
    }
    Ok(())
}

/// Writes floats into a host tensor from `first` on.
pub fn write(values: &[f32], tensor: &mut Tensor, first: usize) -> Result<()> {
    fn range<T: Scalar>(tensor: &mut Tensor, first: usize, len: usize) -> Result<&mut [T]> {
        tensor.view_mut::<T>()?.range(first..first + len)?.host()
    }
    match tensor.dtype() {
        DType::F32 => matmul::store(values, range::<f32>(tensor, first, values.len())?),
        DType::F16 => matmul::store(values, range::<f16>(tensor, first, values.len())?),
        DType::BF16 => matmul::store(values, range::<bf16>(tensor, first, values.len())?),
        other => return Err(not_floats(other)),
    }
    Ok(())
}

fn widen(isa: Isa, tensor: &Tensor, first: usize, out: &mut [f32]) -> Result<()> {
    let range = first..first + out.len();
    match tensor.dtype() {
        DType::F32 => out.copy_from_slice(tensor.view::<f32>()?.range(range)?.host()?),
        DType::F16 => convert::slice(isa, tensor.view::<f16>()?.range(range)?.host()?, out),
        DType::BF16 => convert::slice(isa, tensor.view::<bf16>()?.range(range)?.host()?, out),
        other => return Err(not_floats(other)),
    }
    Ok(())
}

pub fn not_floats(dtype: DType) -> Error {
    Error::unsupported(format!("elements of type {}, not floats", dtype.name())).with_hint("use f32, f16 or bf16")
}
