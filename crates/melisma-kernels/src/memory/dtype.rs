//! Element types.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// 16-bit integer; as audio, full scale is 32,768.
    I16,
    /// 24-bit little-endian integer in three bytes; as audio, full scale is 8,388,608.
    I24,
    /// Byte; as audio, 128 is silence and full scale is 128.
    U8,
}

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::I24 => 3,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::U8 => 1,
        }
    }

    /// The short name used in messages, kernel names and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::I16 => "i16",
            Self::I24 => "i24",
            Self::U8 => "u8",
        }
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
    /// The value, sign-extended.
    #[inline(always)]
    pub fn to_i32(self) -> i32 {
        let [a, b, c] = self.0;
        i32::from_le_bytes([0, a, b, c]) >> 8
    }

    /// The low 24 bits of `value`.
    #[inline(always)]
    pub fn from_i32(value: i32) -> Self {
        let [a, b, c, _] = value.to_le_bytes();
        Self([a, b, c])
    }
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+ $(,)?) => { $(impl Element for $type { const DTYPE: DType = DType::$dtype; })+ };
}
elements!(f32 => F32, f16 => F16, bf16 => BF16, i64 => I64, i32 => I32, i16 => I16, I24 => I24, u8 => U8);

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
}
