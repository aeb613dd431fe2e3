//! Weights in files: `.safetensors`, and the zip files of `torch.save`, told apart by their first bytes.
//!
//! Nothing in a file is ever executed. Tensors stay views into the file's bytes until [`View::to_f32`] is called, so
//! that a hostile file can make us allocate no more than the caller's expected shapes.

mod pickle;
mod torch;
mod zip;

use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use crate::{Error, Kind, Result};

/// The tensors of a file by name.
#[derive(Debug, Default)]
pub struct Checkpoint<'a> {
    tensors: BTreeMap<String, View<'a>>,
}

/// Element types of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// 16-bit brain floats.
    Bf16,
    /// Anything that is not a float, by name; such tensors can be listed but not converted.
    Other(&'static str),
}

impl DType {
    fn bytes(self) -> Option<usize> {
        match self {
            Self::F64 => Some(8),
            Self::F32 => Some(4),
            Self::F16 | Self::Bf16 => Some(2),
            Self::Other(name) => match name {
                "i64" => Some(8),
                "i32" => Some(4),
                "i16" => Some(2),
                "i8" | "u8" | "bool" => Some(1),
                _ => None,
            },
        }
    }

    /// Its name in safetensors files.
    pub fn safetensors_name(self) -> Option<&'static str> {
        Some(match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Other("i64") => "I64",
            Self::Other("i32") => "I32",
            Self::Other("i16") => "I16",
            Self::Other("i8") => "I8",
            Self::Other("u8") => "U8",
            Self::Other("bool") => "BOOL",
            Self::Other(_) => return None,
        })
    }
}

/// A tensor inside a file: a type, a shape, and strides into a piece of the file that was checked to hold them.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Type of an element.
    pub dtype: DType,
    /// Extent of each dimension.
    pub shape: Vec<usize>,
    /// Step of each dimension, in elements.
    strides: Vec<usize>,
    /// The storage from the tensor's first element on.
    data: &'a [u8],
}

impl<'a> Checkpoint<'a> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt` when the file contradicts its format, `Unsupported` for other formats.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        match bytes {
            [b'P', b'K', 3, 4, ..] => torch::read(bytes),
            [0x80, 2, 0x8A, 0x0A, ..] => Err(Error::unsupported("a checkpoint in PyTorch's old format, before 1.6")
                .with_hint("load it and save it again with a newer PyTorch, or convert it to .safetensors")),
            _ => Self::read_safetensors(bytes),
        }
    }

    fn read_safetensors(bytes: &'a [u8]) -> Result<Self> {
        let file = SafeTensors::deserialize(bytes).map_err(refused)?;
        let mut tensors = BTreeMap::new();
        for (name, tensor) in file.iter() {
            let dtype = match tensor.dtype() {
                Dtype::F64 => DType::F64,
                Dtype::F32 => DType::F32,
                Dtype::F16 => DType::F16,
                Dtype::BF16 => DType::Bf16,
                _ => DType::Other("integer"),
            };
            let shape = tensor.shape().to_vec();
            // The directory was checked: the products of the extents fit the data.
            let mut strides = vec![1; shape.len()];
            for axis in (1..shape.len()).rev() {
                strides[axis - 1] = strides[axis] * shape[axis];
            }
            tensors.insert(name.to_owned(), View { dtype, shape, strides, data: tensor.data() });
        }
        Ok(Self { tensors })
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&View<'a>> {
        self.tensors.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

impl View<'_> {
    /// The elements in row-major order. Allocates 4 bytes for each element of the shape: check the shape first.
    ///
    /// # Errors
    /// `Unsupported` when the elements are no floats.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        match self.dtype {
            DType::F64 => Ok(self.gather(|b: [u8; 8]| f64::from_le_bytes(b) as f32)),
            DType::F32 => Ok(self.gather(f32::from_le_bytes)),
            DType::F16 => Ok(self.gather(|b: [u8; 2]| f16::from_le_bytes(b).to_f32())),
            DType::Bf16 => Ok(self.gather(|b: [u8; 2]| bf16::from_le_bytes(b).to_f32())),
            DType::Other(name) => Err(Error::unsupported(format!("elements of type {name}, not floats"))),
        }
    }

    /// Appends the elements' bytes in row-major order; as many as the shape has.
    ///
    /// # Errors
    /// `Unsupported` when the length of an element is not known.
    pub fn append_bytes(&self, out: &mut Vec<u8>) -> Result<()> {
        match self.dtype.bytes() {
            Some(1) => out.extend(self.gather(|b: [u8; 1]| b).as_flattened()),
            Some(2) => out.extend(self.gather(|b: [u8; 2]| b).as_flattened()),
            Some(4) => out.extend(self.gather(|b: [u8; 4]| b).as_flattened()),
            Some(8) => out.extend(self.gather(|b: [u8; 8]| b).as_flattened()),
            _ => return Err(Error::unsupported(format!("elements of type {:?}", self.dtype))),
        }
        Ok(())
    }

    fn gather<const N: usize, T>(&self, element: impl Fn([u8; N]) -> T) -> Vec<T> {
        let storage = self.data.as_chunks::<N>().0;
        let n = self.shape.iter().product();
        let mut out = Vec::with_capacity(n);
        let mut index = vec![0; self.shape.len()];
        let inner = self.shape.last().copied().unwrap_or(1);
        let step = self.strides.last().copied().unwrap_or(1);
        while out.len() < n {
            let start: usize = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
            out.extend((0..inner).map(|i| element(storage[start + i * step])));
            for axis in (0..self.shape.len().saturating_sub(1)).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        out
    }
}

fn refused(error: SafeTensorError) -> Error {
    let kind = match error {
        SafeTensorError::HeaderTooSmall
        | SafeTensorError::InvalidHeaderLength
        | SafeTensorError::MetadataIncompleteBuffer => Kind::Truncated,
        _ => Kind::Corrupt,
    };
    Error::new(kind, format!("not a valid safetensors file: {error}")).with_source(error)
}

#[cfg(test)]
mod tests;
