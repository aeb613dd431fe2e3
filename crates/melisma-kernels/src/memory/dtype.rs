//! Element types.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::{Error, Result};

/// The type of an array's elements, in memory and in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// Signed byte.
    I8,
    /// 16-bit integer; as audio, full scale is 32,768.
    I16,
    /// 24-bit little-endian integer in three bytes; as audio, full scale is 8,388,608. Only audio files store it.
    I24,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Byte; as audio, 128 is silence and full scale is 128.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// A truth value in one byte.
    Bool,
}

impl DType {
    /// Every type that files of arrays store: all but [`DType::I24`].
    pub const STORED: [Self; 13] = [
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

    /// Returns the bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I24 => 3,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// Returns the short name used in messages, kernel names and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I24 => "i24",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        }
    }

    /// Returns the code in ONNX's `TensorProto.DataType`. ONNX has no 24-bit integers: theirs is 0, undefined.
    pub fn code(self) -> i32 {
        match self {
            Self::I24 => 0,
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

    /// Returns the type with an ONNX code.
    ///
    /// # Errors
    /// `Unsupported`, with the name of the type: strings, complex numbers and types smaller than a byte.
    pub fn from_code(code: i32) -> Result<Self> {
        Self::STORED.into_iter().find(|dtype| dtype.code() == code).ok_or_else(|| {
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

    /// Returns the safetensors name. `I24` is not one of that format's own.
    pub fn safetensors_name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::I8 => "I8",
            Self::I16 => "I16",
            Self::I24 => "I24",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::U8 => "U8",
            Self::U16 => "U16",
            Self::U32 => "U32",
            Self::U64 => "U64",
            Self::Bool => "BOOL",
        }
    }

    /// Returns the type with a safetensors name, if there is one.
    pub fn from_safetensors(name: &str) -> Option<Self> {
        Self::STORED.into_iter().find(|dtype| dtype.safetensors_name() == name)
    }
}

/// A Rust type that tensors and views can have as element type.
pub trait Element: Pod + Send + Sync {
    /// The matching [`DType`].
    const DTYPE: DType;
}

/// A 24-bit little-endian integer as audio files store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct I24(pub [u8; 3]);

impl I24 {
    /// Returns the value, sign-extended.
    #[inline(always)]
    pub fn to_i32(self) -> i32 {
        let [a, b, c] = self.0;
        i32::from_le_bytes([0, a, b, c]) >> 8
    }

    /// Returns the low 24 bits of `value`.
    #[inline(always)]
    pub fn from_i32(value: i32) -> Self {
        let [a, b, c, _] = value.to_le_bytes();
        Self([a, b, c])
    }
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+ $(,)?) => { $(impl Element for $type { const DTYPE: DType = DType::$dtype; })+ };
}
elements!(f32 => F32, f64 => F64, f16 => F16, bf16 => BF16);
elements!(i8 => I8, i16 => I16, I24 => I24, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i24_keeps_its_range() {
        for value in [-8_388_608, -1, 0, 1, 0x12_3456, 8_388_607] {
            assert_eq!(I24::from_i32(value).to_i32(), value);
        }
    }

    #[test]
    fn sizes_are_those_of_the_types() {
        assert_eq!(DType::I24.size(), size_of::<I24>());
        assert_eq!(DType::F16.size(), size_of::<f16>());
        assert_eq!(<bf16 as Element>::DTYPE.name(), "bf16");
    }

    #[test]
    fn numbers_name_types_and_back() {
        for dtype in DType::STORED {
            assert_eq!(DType::from_code(dtype.code()).unwrap(), dtype);
            assert_eq!(DType::from_safetensors(dtype.safetensors_name()), Some(dtype));
        }
        assert!(DType::from_code(DType::I24.code()).is_err());
        assert!(DType::from_code(8).unwrap_err().to_string().contains("strings"));
        assert!(DType::from_code(-3).unwrap_err().to_string().contains("-3"));
    }
}
