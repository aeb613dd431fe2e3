//! Reads the header of a safetensors file strictly: every byte after it belongs to exactly one
//! tensor.

mod write;

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::read_at::{ReadAt, read};
use crate::{Error, ErrorKind, Result};
pub(crate) use write::HeaderJson;
#[doc(hidden)]
pub use write::header;
pub use write::{Tensor, encode};

/// The format's own limit for the header.
const MAX_LEN: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// A tensor as described by the header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The element type, by its safetensors name.
    pub dtype: String,
    /// Extent of each dimension.
    pub shape: Vec<u64>,
    /// Start and end of its bytes, relative to the end of the header.
    pub bytes: [u64; 2],
}

impl TensorEntry {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes[1] - self.bytes[0]
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The header of a file whose size is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The tensors in the order of their bytes.
    pub tensors: Vec<TensorEntry>,
    /// Free-form strings.
    pub metadata: BTreeMap<String, String>,
    /// Bytes before the first tensor: the length field, the JSON and its padding.
    pub len: u64,
}

impl Header {
    /// Reads and checks the header of `file`.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt`: the header is longer than the file or than 100 MB, is not a JSON
    /// object of tensors, or repeats a name; or the tensors overlap, leave gaps, or do not end with
    /// the file.
    pub fn read(file: &dyn ReadAt) -> Result<Self> {
        let size = file.size()?;
        let short = || {
            Error::truncated(format!("a file of {size} bytes, too short for weights"))
                .with_hint("a .safetensors file or a PyTorch checkpoint is expected; fetch it again if it was cut")
        };
        let data_len = size.checked_sub(8).ok_or_else(short)?;
        let mut len = [0; 8];
        file.read_at(0, &mut len).map_err(|_| short())?;
        let json_len = u64::from_le_bytes(len);
        if json_len > MAX_LEN {
            let message = format!("the header would have {json_len} bytes; at most {MAX_LEN}");
            return Err(Error::corrupt(message)
                .with_hint("this is probably not a safetensors file: name one, or a PyTorch checkpoint"));
        }
        if json_len > data_len {
            let message = format!("the header has {json_len} bytes, the file only {size}");
            return Err(Error::truncated(message).with_hint("the file was cut off: make or fetch it again"));
        }
        let json = read(file, 8, json_len as usize)?;
        Self::parse(&json, data_len - json_len)
    }

    /// Checks the JSON of a header that is followed by `data_len` bytes.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub fn parse(json: &[u8], data_len: u64) -> Result<Self> {
        if json.first() != Some(&b'{') {
            return Err(
                Error::corrupt("the header does not begin with `{`").with_hint("this is not a safetensors file")
            );
        }
        let Raw { mut tensors, metadata } = serde_json::from_slice(json)
            .map_err(|error| Error::corrupt(format!("the header: {error}")).with_source(error))?;
        tensors.sort_by_key(|tensor| tensor.bytes);
        let mut at = 0;
        for TensorEntry { name, bytes: [begin, end], .. } in &tensors {
            if *begin != at || end < begin {
                return Err(Error::corrupt(format!("{name}: bytes {begin} to {end}, expected to begin at {at}")));
            }
            at = *end;
        }
        if at != data_len {
            let kind = if at > data_len { ErrorKind::Truncated } else { ErrorKind::Corrupt };
            return Err(Error::new(kind, format!("the tensors have {at} bytes, the file has {data_len} for them")));
        }
        Ok(Self { tensors, metadata, len: 8 + json.len() as u64 })
    }

    /// Returns the tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&TensorEntry> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

struct Raw {
    tensors: Vec<TensorEntry>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Implemented by hand, because a map would let a second tensor of the same name replace the first.
impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw { tensors: Vec::new(), metadata: BTreeMap::new() };
                let mut names = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("`{name}` occurs twice")));
                    }
                    if name == METADATA {
                        raw.metadata = map.next_value()?;
                    } else {
                        let RawTensor { dtype, shape, data_offsets } = map.next_value()?;
                        raw.tensors.push(TensorEntry { name, dtype, shape, bytes: data_offsets });
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
