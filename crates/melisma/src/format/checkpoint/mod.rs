//! Weights in files: `.safetensors`, and the zip files of `torch.save`, told apart by their first bytes.
//!
//! Nothing in a file is ever executed. Tensors stay in the file until [`View::to_f32`] or [`View::read_at`] is called, so
//! that a checkpoint of any size takes the memory of one tensor, and a hostile one no more than the caller's expected
//! shapes.

mod torch;
mod view;

use std::collections::BTreeMap;

pub use view::View;

use super::ReadAt;
use super::safetensors::{Header, TensorEntry};
use crate::{Error, Result};

/// The tensors of a file by name.
#[derive(Debug, Default)]
pub struct Checkpoint<'a> {
    tensors: BTreeMap<String, View<'a>>,
    left_out: Vec<String>,
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
    /// Any other type, by name; such tensors can be listed and copied but not converted.
    Other(&'static str),
}

/// Of the other types: our name, that in safetensors files, bytes of an element.
const OTHERS: [(&str, &str, usize); 15] = [
    ("i64", "I64", 8),
    ("i32", "I32", 4),
    ("i16", "I16", 2),
    ("i8", "I8", 1),
    ("u64", "U64", 8),
    ("u32", "U32", 4),
    ("u16", "U16", 2),
    ("u8", "U8", 1),
    ("bool", "BOOL", 1),
    ("c64", "C64", 8),
    ("f8_e4m3", "F8_E4M3", 1),
    ("f8_e5m2", "F8_E5M2", 1),
    ("f8_e4m3fnuz", "F8_E4M3FNUZ", 1),
    ("f8_e5m2fnuz", "F8_E5M2FNUZ", 1),
    ("f8_e8m0", "F8_E8M0", 1),
];

impl DType {
    fn bytes(self) -> Option<usize> {
        match self {
            Self::F64 => Some(8),
            Self::F32 => Some(4),
            Self::F16 | Self::Bf16 => Some(2),
            Self::Other(name) => OTHERS.iter().find(|other| other.0 == name).map(|other| other.2),
        }
    }

    /// Its name in safetensors files.
    pub fn safetensors_name(self) -> Option<&'static str> {
        Some(match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Other(name) => return OTHERS.iter().find(|other| other.0 == name).map(|other| other.1),
        })
    }

    /// The type that safetensors files call `name`.
    pub fn from_safetensors(name: &str) -> Self {
        match name {
            "F64" => Self::F64,
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            _ => Self::Other(OTHERS.iter().find(|other| other.1 == name).map_or("unknown", |other| other.0)),
        }
    }
}

impl<'a> Checkpoint<'a> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt` when the file contradicts its format, `Unsupported` for other formats.
    pub fn read(file: &'a dyn ReadAt) -> Result<Self> {
        match kind(file) {
            Some(Format::Zip) => torch::read(file),
            Some(Format::Legacy) => Err(Error::unsupported("a checkpoint in PyTorch's old format, before 1.6")
                .with_hint("load it and save it again with a newer PyTorch, or convert it to .safetensors")),
            None => Self::read_safetensors(file),
        }
    }

    fn read_safetensors(file: &'a dyn ReadAt) -> Result<Self> {
        let header = Header::read(file).map_err(|error| {
            let refused = Error::new(error.kind(), format!("not a valid safetensors file: {error}"));
            refused.with_source(error)
        })?;
        let mut tensors = BTreeMap::new();
        for TensorEntry { name, dtype, shape, bytes } in &header.tensors {
            let dtype = DType::from_safetensors(dtype);
            let shape: Option<Vec<usize>> = shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
            let shape = shape.filter(|shape| {
                let len = dtype.bytes().map(|len| shape.iter().try_fold(len, |n, &extent| n.checked_mul(extent)));
                len.is_none_or(|len| len == usize::try_from(bytes[1] - bytes[0]).ok())
            });
            let shape = shape.ok_or_else(|| {
                let message = format!("not a valid safetensors file: {name}: its bytes do not fit its type and shape");
                Error::corrupt(message)
            })?;
            // Where the length of an element is not known, nothing is read.
            let strides = dtype.bytes().map_or_else(|| vec![0; shape.len()], |_| view::row_major(&shape));
            tensors.insert(name.clone(), View { dtype, shape, strides, file, at: header.len + bytes[0] });
        }
        Ok(Self { tensors, left_out: Vec::new() })
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&View<'a>> {
        self.tensors.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// What else the file holds beside the state dict that was read, by name.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

/// How PyTorch wrote a checkpoint.
enum Format {
    Zip,
    Legacy,
}

fn kind(file: &dyn ReadAt) -> Option<Format> {
    let mut first = [0; 4];
    file.read_at(0, &mut first).ok()?;
    match first {
        [b'P', b'K', 3, 4] => Some(Format::Zip),
        [0x80, 2, 0x8A, 0x0A] => Some(Format::Legacy),
        _ => None,
    }
}

/// Whether a file begins as checkpoints of PyTorch do, in the format of today or the one before 1.6.
pub fn is_torch(file: &dyn ReadAt) -> bool {
    kind(file).is_some()
}

#[cfg(test)]
pub(crate) mod tests;
