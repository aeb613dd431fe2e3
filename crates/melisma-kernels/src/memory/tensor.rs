//! Tensors: dense arrays passed between rooms. Kernels take [`View`]s of them.

use crate::{Budget, Buffer, DType, Device, Element, Error, ErrorKind, Pool, Result, View, ViewMut};

/// A dense row-major array of one element type in one place.
#[derive(Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    buffer: Buffer,
}

impl Tensor {
    /// Creates a tensor in the memory of `device`: zeroed on the CPU, with unspecified content on a
    /// GPU.
    ///
    /// # Errors
    /// The size overflows, or the budget or the system refuses.
    pub fn new(device: &Device, budget: &Budget, dtype: DType, shape: &[usize]) -> Result<Self> {
        let bytes = byte_len(dtype, shape)?;
        let buffer = match device {
            Device::Cpu(_) => Buffer::host(budget, bytes)?,
            Device::Cuda(cuda) => Buffer::device(cuda, budget, bytes)?,
        };
        Ok(Self { dtype, shape: shape.to_vec(), buffer })
    }

    /// Creates a tensor from `pool`, with unspecified content.
    ///
    /// # Errors
    /// The size overflows, or the pool refuses.
    pub fn pooled(pool: &Pool, dtype: DType, shape: &[usize]) -> Result<Self> {
        let buffer = pool.take(byte_len(dtype, shape)?)?;
        Ok(Self { dtype, shape: shape.to_vec(), buffer })
    }

    /// Creates a host tensor with a copy of `values`.
    ///
    /// # Errors
    /// `values.len()` is not the product of `shape`, or the budget refuses.
    pub fn from_slice<T: Element>(budget: &Budget, values: &[T], shape: &[usize]) -> Result<Self> {
        let bytes = byte_len(T::DTYPE, shape)?;
        if bytes != size_of_val(values) {
            return Err(Error::invalid(format!("shape {shape:?} does not hold {} elements", values.len())));
        }
        let mut buffer = Buffer::host(budget, bytes)?;
        buffer.view_mut::<T>()?.host()?.copy_from_slice(values);
        Ok(Self { dtype: T::DTYPE, shape: shape.to_vec(), buffer })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths of its axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.buffer.len() / self.dtype.size()
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns its elements.
    ///
    /// # Errors
    /// `T` is not its element type.
    pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
        self.check::<T>()?;
        self.buffer.view()
    }

    /// Returns its elements, for writing.
    ///
    /// # Errors
    /// `T` is not its element type.
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        self.check::<T>()?;
        self.buffer.view_mut()
    }

    /// Returns the bytes of its elements, whatever their type.
    ///
    /// # Errors
    /// None that a tensor can cause.
    pub fn bytes(&self) -> Result<View<'_, u8>> {
        self.buffer.view()
    }

    /// Returns the bytes of its elements, for writing.
    ///
    /// # Errors
    /// None that a tensor can cause.
    pub fn bytes_mut(&mut self) -> Result<ViewMut<'_, u8>> {
        self.buffer.view_mut()
    }

    fn check<T: Element>(&self) -> Result<()> {
        if T::DTYPE == self.dtype {
            return Ok(());
        }
        Err(Error::invalid(format!("the tensor holds {}, not {}", self.dtype.name(), T::DTYPE.name())))
    }
}

fn byte_len(dtype: DType, shape: &[usize]) -> Result<usize> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let bytes = shape.iter().try_fold(dtype.size(), |product, &axis| product.checked_mul(axis));
    bytes
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Error::new(ErrorKind::Memory, format!("shape {shape:?} of {} overflows", dtype.name())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_shapes_are_checked() {
        let budget = Budget::unlimited();
        let tensor = Tensor::from_slice(&budget, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
        assert_eq!((tensor.shape(), tensor.len()), (&[2, 3][..], 6));
        assert_eq!(tensor.view::<f32>().unwrap().host().unwrap()[5], 6.0);
        assert!(tensor.view::<i16>().unwrap_err().to_string().contains("f32"));
        assert!(Tensor::from_slice(&budget, &[1.0f32], &[2]).is_err());
        let huge = Tensor::new(&Device::cpu().unwrap(), &budget, DType::F32, &[usize::MAX, 2]).unwrap_err();
        assert_eq!(huge.kind(), ErrorKind::Memory);
        let empty = Tensor::new(&Device::cpu().unwrap(), &budget, DType::F32, &[usize::MAX, 0]).unwrap();
        assert!(empty.is_empty());
    }
}
