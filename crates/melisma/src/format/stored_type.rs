//! Element types of weights: those of arrays, and types that can only be listed and copied.

use half::{bf16, f16};

use crate::{DType, Error, Result};

/// The element type of a tensor in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredType {
    /// A type that arrays support too.
    Array(DType),
    /// A type whose elements are never converted.
    Opaque(Opaque),
    /// A type that this version does not know.
    Unknown,
}

/// Element types that are listed and copied only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
#[non_exhaustive]
pub enum Opaque {
    C64,
    F8E4M3,
    F8E5M2,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    F8E8M0,
}

impl Opaque {
    const ALL: [Self; 6] = [Self::C64, Self::F8E4M3, Self::F8E5M2, Self::F8E4M3Fnuz, Self::F8E5M2Fnuz, Self::F8E8M0];

    fn size(self) -> usize {
        if self == Self::C64 { 8 } else { 1 }
    }

    /// Returns the short name and the safetensors name.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::C64 => ["c64", "C64"],
            Self::F8E4M3 => ["f8_e4m3", "F8_E4M3"],
            Self::F8E5M2 => ["f8_e5m2", "F8_E5M2"],
            Self::F8E4M3Fnuz => ["f8_e4m3fnuz", "F8_E4M3FNUZ"],
            Self::F8E5M2Fnuz => ["f8_e5m2fnuz", "F8_E5M2FNUZ"],
            Self::F8E8M0 => ["f8_e8m0", "F8_E8M0"],
        }
    }
}

impl StoredType {
    /// Returns the bytes of one element, if known.
    pub(super) fn size(self) -> Option<usize> {
        match self {
            Self::Array(dtype) => Some(dtype.size()),
            Self::Opaque(other) => Some(other.size()),
            Self::Unknown => None,
        }
    }

    /// Returns the short name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array(dtype) => dtype.name(),
            Self::Opaque(other) => other.names()[0],
            Self::Unknown => "unknown",
        }
    }

    /// Returns the safetensors name.
    pub fn safetensors_name(self) -> Option<&'static str> {
        match self {
            Self::Array(dtype) => Some(dtype.safetensors_name()),
            Self::Opaque(other) => Some(other.names()[1]),
            Self::Unknown => None,
        }
    }

    /// Returns the type with a safetensors name.
    pub fn from_safetensors(name: &str) -> Self {
        let opaque = || Opaque::ALL.into_iter().find(|other| other.names()[1] == name);
        DType::from_safetensors(name).map(Self::Array).or_else(|| opaque().map(Self::Opaque)).unwrap_or(Self::Unknown)
    }

    /// Returns the type of a PyTorch storage class.
    pub(super) fn from_storage(class: &str) -> Option<Self> {
        Self::from_torch(match class {
            "DoubleStorage" => "float64",
            "FloatStorage" => "float32",
            "HalfStorage" => "float16",
            "BFloat16Storage" => "bfloat16",
            "LongStorage" => "int64",
            "IntStorage" => "int32",
            "ShortStorage" => "int16",
            "CharStorage" => "int8",
            "ByteStorage" => "uint8",
            "BoolStorage" => "bool",
            "ComplexFloatStorage" => "complex64",
            _ => return None,
        })
    }

    /// Returns the type that PyTorch calls `torch.NAME`.
    pub(super) fn from_torch(name: &str) -> Option<Self> {
        Some(match name {
            "float64" => Self::Array(DType::F64),
            "float32" => Self::Array(DType::F32),
            "float16" => Self::Array(DType::F16),
            "bfloat16" => Self::Array(DType::BF16),
            "int64" => Self::Array(DType::I64),
            "int32" => Self::Array(DType::I32),
            "int16" => Self::Array(DType::I16),
            "int8" => Self::Array(DType::I8),
            "uint64" => Self::Array(DType::U64),
            "uint32" => Self::Array(DType::U32),
            "uint16" => Self::Array(DType::U16),
            "uint8" => Self::Array(DType::U8),
            "bool" => Self::Array(DType::Bool),
            "complex64" => Self::Opaque(Opaque::C64),
            "float8_e4m3fn" => Self::Opaque(Opaque::F8E4M3),
            "float8_e5m2" => Self::Opaque(Opaque::F8E5M2),
            "float8_e4m3fnuz" => Self::Opaque(Opaque::F8E4M3Fnuz),
            "float8_e5m2fnuz" => Self::Opaque(Opaque::F8E5M2Fnuz),
            "float8_e8m0fnu" => Self::Opaque(Opaque::F8E8M0),
            _ => return None,
        })
    }

    /// Converts whole elements and appends them.
    ///
    /// # Errors
    /// `Unsupported` if the elements are not floats.
    pub(crate) fn append_floats(self, bytes: &[u8], out: &mut Vec<f32>) -> Result<()> {
        match self {
            Self::Array(DType::F64) => out.extend(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b) as f32)),
            Self::Array(DType::F32) => out.extend(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b))),
            Self::Array(DType::F16) => out.extend(bytes.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f32())),
            Self::Array(DType::BF16) => {
                out.extend(bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).to_f32()))
            }
            other => return Err(Error::unsupported(format!("elements of type {}, not floats", other.name()))),
        }
        Ok(())
    }
}
