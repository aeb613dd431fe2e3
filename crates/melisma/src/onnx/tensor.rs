//! Constant tensors.

use std::sync::Arc;

use crate::format::Value;
use crate::{DType, Element, Error, Result};

/// The element type number of strings.
pub(super) const STRINGS: i32 = 8;

/// A constant tensor: an initializer or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name; empty for attributes.
    pub name: String,
    /// The number of its element type; [`DType::from_code`] knows most.
    pub dtype: i32,
    /// The extents of its axes.
    pub shape: Vec<usize>,
    /// Its elements.
    pub data: Data,
    /// Fields that are passed through.
    pub rest: Vec<u8>,
}

/// The elements of a tensor. Clones share them.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Little-endian; types below a byte are packed.
    Bytes(Arc<Vec<u8>>),
    /// One text per element.
    Strings(Vec<Vec<u8>>),
}

impl Tensor {
    /// Creates a tensor with the elements of `value`.
    pub fn new(name: &str, value: &Value) -> Self {
        Self {
            name: name.to_owned(),
            dtype: value.dtype().code(),
            shape: value.shape().to_vec(),
            data: Data::Bytes(Arc::new(value.bytes().to_vec())),
            rest: Vec::new(),
        }
    }

    /// Creates a tensor of `values`.
    ///
    /// # Errors
    /// `values.len()` is not the product of `shape`.
    pub fn from_slice<T: Element>(name: &str, values: &[T], shape: &[usize]) -> Result<Self> {
        Ok(Self::new(name, &Value::from_slice(values, shape)?))
    }

    /// Returns the elements as an array.
    ///
    /// # Errors
    /// `Unsupported` for element types that arrays do not support.
    pub fn value(&self) -> Result<Value> {
        let dtype = DType::from_code(self.dtype).map_err(|error| error.at(format!("tensor `{}`", self.name)))?;
        match &self.data {
            Data::Bytes(bytes) => Value::from_bytes(dtype, &self.shape, bytes),
            Data::Strings(_) => Err(Error::unsupported(format!("tensor `{}`: strings are not supported", self.name))),
        }
    }

    /// Returns the size of its elements in bytes.
    pub fn byte_len(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Strings(texts) => texts.iter().map(Vec::len).sum(),
        }
    }
}

/// Returns the bits per element of type number `dtype`; `None` for strings and unknown types.
pub(super) fn bits(dtype: i32) -> Option<usize> {
    Some(match dtype {
        2 | 3 | 9 | 17..=20 | 24 => 8,
        4 | 5 | 10 | 16 => 16,
        1 | 6 | 12 => 32,
        7 | 11 | 13 | 14 => 64,
        15 => 128,
        21..=23 => 4,
        25 | 26 => 2,
        _ => return None,
    })
}

/// Converts the lengths in a file to lengths whose product does not overflow.
pub(super) fn shape(dims: &[i64]) -> Result<(Vec<usize>, usize)> {
    let shape: Option<Vec<usize>> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let shape = shape.ok_or_else(|| Error::corrupt(format!("invalid shape {dims:?}")))?;
    let count = shape.iter().try_fold(1usize, |product, &axis| product.checked_mul(axis));
    // Leaves room for the bits of the widest type.
    let count = count.filter(|&count| count <= usize::MAX / 256);
    Ok((shape, count.ok_or_else(|| Error::corrupt(format!("shape {dims:?}: the number of elements overflows")))?))
}
