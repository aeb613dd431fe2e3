//! Element types of arrays in files, with their safetensors names and ONNX codes.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::{Error, Result};

/// The element type of an array. ONNX strings, complex numbers and types smaller than a byte are
/// not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    F32,
    F64,
    F16,
    BF16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl DType {
    /// Every type.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The short name for messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        }
    }

    /// The code in ONNX's `TensorProto.DataType`.
    pub fn code(self) -> i32 {
        match self {
            Self::F32 => 1,
            Self::U8 => 2,
            Self::I8 => 3,
            Self::U16 => 4,
            Self::I16 => 5,
            Self::I32 => 6,
            Self::I64 => 7,
            Self::Bool => 9,
            Self::F16 => 10,
            Self::F64 => 11,
            Self::U32 => 12,
            Self::U64 => 13,
            Self::BF16 => 16,
        }
    }

    /// The type with an ONNX code.
    ///
    /// # Errors
    /// `Unsupported`, with the name of the type, if there is no such type here.
    pub fn from_code(code: i32) -> Result<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.code() == code).ok_or_else(|| {
            let name = match code {
                0 => "no element type".to_owned(),
                8 => "strings".to_owned(),
                14 | 15 => "complex numbers".to_owned(),
                17..=20 => "8-bit floats".to_owned(),
                21..=26 => "elements below a byte".to_owned(),
                other => format!("element type {other}"),
            };
            Error::unsupported(format!("{name} in a model"))
        })
    }

    /// The safetensors name.
    pub fn safetensors_name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I8 => "I8",
            Self::I16 => "I16",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::U8 => "U8",
            Self::U16 => "U16",
            Self::U32 => "U32",
            Self::U64 => "U64",
            Self::Bool => "BOOL",
        }
    }

    /// The type with a safetensors name, if there is one.
    pub fn from_safetensors(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.safetensors_name() == name)
    }

    /// The type of a tensor's elements; `None` for 24-bit integers, which files do not store.
    pub(crate) fn of_tensor(dtype: melisma_kernels::DType) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == dtype.name())
    }
}

/// A Rust type that can be an element of an array.
pub trait Number: Pod + Send + Sync {
    /// The matching element type.
    const DTYPE: DType;
}

macro_rules! numbers {
    ($($type:ty => $dtype:ident),+ $(,)?) => { $(impl Number for $type { const DTYPE: DType = DType::$dtype; })+ };
}
numbers!(f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, i8 => I8, i16 => I16, i32 => I32, i64 => I64);
numbers!(u8 => U8, u16 => U16, u32 => U32, u64 => U64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_types_and_back() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()).unwrap(), dtype);
            assert_eq!(DType::from_safetensors(dtype.safetensors_name()), Some(dtype));
        }
        assert!(DType::from_code(8).unwrap_err().to_string().contains("strings"));
        assert!(DType::from_code(-3).unwrap_err().to_string().contains("-3"));
    }
}
