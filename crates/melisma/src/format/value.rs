//! Inputs and outputs of an engine: arrays with an ONNX element type, a shape, and bytes aligned
//! for every type.

use bytemuck::{cast_slice, cast_slice_mut};

use crate::{DType, Element};
use crate::{Error, ErrorKind, Result};

/// A dense row-major array.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    dtype: DType,
    shape: Vec<usize>,
    /// Bytes in use; `words` may have up to 7 more.
    len: usize,
    words: Vec<u64>,
}

impl Value {
    /// Creates an array of zeros.
    ///
    /// # Errors
    /// The size overflows, or there is not enough memory.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        let len = byte_len(dtype, shape)?;
        let mut words = Vec::new();
        let n_words = len.div_ceil(8);
        words.try_reserve_exact(n_words).map_err(|error| {
            Error::new(ErrorKind::Memory, format!("{} of shape {shape:?}: cannot allocate {len} bytes", dtype.name()))
                .with_source(error)
        })?;
        words.resize(n_words, 0);
        Ok(Self { dtype, shape: shape.to_vec(), len, words })
    }

    /// Creates a copy of `values`.
    ///
    /// # Errors
    /// `values.len()` is not the product of `shape`.
    pub fn from_slice<T: Element>(values: &[T], shape: &[usize]) -> Result<Self> {
        Self::from_bytes(T::DTYPE, shape, cast_slice(values))
    }

    /// Creates a copy of little-endian elements.
    ///
    /// # Errors
    /// The length of `bytes` does not match the shape.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        let len = byte_len(dtype, shape)?;
        if len != bytes.len() {
            let name = dtype.name();
            return Err(Error::invalid(format!("{name} of shape {shape:?} has {len} bytes, not {}", bytes.len())));
        }
        let mut value = Self::zeros(dtype, shape)?;
        value.bytes_mut().copy_from_slice(bytes);
        Ok(value)
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
        self.len / self.dtype.size()
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of the elements, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &cast_slice(&self.words)[..self.len]
    }

    /// Returns the bytes of the elements, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut cast_slice_mut(&mut self.words)[..self.len]
    }

    /// Returns the elements.
    ///
    /// # Errors
    /// `T` is not the element type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        Ok(cast_slice(self.bytes()))
    }

    /// Returns the elements, mutable.
    ///
    /// # Errors
    /// `T` is not the element type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check::<T>()?;
        Ok(cast_slice_mut(self.bytes_mut()))
    }

    /// Returns the same elements in another shape.
    ///
    /// # Errors
    /// The number of elements differs.
    pub fn reshaped(mut self, shape: &[usize]) -> Result<Self> {
        if byte_len(self.dtype, shape)? != self.len {
            return Err(Error::invalid(format!("shape {:?} does not become {shape:?}", self.shape)));
        }
        self.shape = shape.to_vec();
        Ok(self)
    }

    fn check<T: Element>(&self) -> Result<()> {
        // Booleans are bytes, and can be read as `u8`.
        if T::DTYPE == self.dtype || (self.dtype == DType::Bool && T::DTYPE == DType::U8) {
            return Ok(());
        }
        Err(Error::invalid(format!("the array holds {}, not {}", self.dtype.name(), T::DTYPE.name())))
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.dtype.name(), self.shape)
    }
}

/// Returns the size of an array, in bytes.
///
/// # Errors
/// The size overflows.
pub(crate) fn byte_len(dtype: DType, shape: &[usize]) -> Result<usize> {
    if dtype == DType::I24 {
        return Err(Error::unsupported("arrays of 24-bit integers are not supported"));
    }
    let bytes = shape.iter().try_fold(dtype.size(), |product, &axis| product.checked_mul(axis));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| {
        Error::new(ErrorKind::Memory, format!("{} of shape {shape:?}: the size overflows", dtype.name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_sizes_are_checked() {
        let value = Value::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        assert_eq!(value.as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert!(value.as_slice::<i32>().unwrap_err().to_string().contains("f32, not i32"));
        assert!(Value::from_slice(&[1i64], &[2]).is_err());
        assert_eq!(Value::zeros(DType::F64, &[usize::MAX, 3]).unwrap_err().kind(), ErrorKind::Memory);
        assert_eq!(Value::zeros(DType::I8, &[1 << 60]).unwrap_err().kind(), ErrorKind::Memory);
        assert_eq!(value.clone().reshaped(&[1, 3, 1]).unwrap().shape(), [1, 3, 1]);
        assert!(value.reshaped(&[4]).is_err());
    }

    #[test]
    fn odd_lengths_and_nothing() {
        let value = Value::from_bytes(DType::Bool, &[3], &[1, 0, 1]).unwrap();
        assert_eq!(value.as_slice::<u8>().unwrap(), [1, 0, 1]);
        let nothing = Value::zeros(DType::F32, &[0, 7]).unwrap();
        assert!(nothing.is_empty() && nothing.as_slice::<f32>().unwrap().is_empty());
    }
}
