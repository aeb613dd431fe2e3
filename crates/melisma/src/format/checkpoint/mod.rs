//! Reads weights from `.safetensors` files and the zip files of `torch.save`, distinguished by
//! their first bytes.
//!
//! Nothing in a file is ever executed. Tensors stay in the file until [`View::to_f32`] or
//! [`View::read_at`] is called. A checkpoint of any size therefore takes the memory of one tensor,
//! and a hostile one takes no more than the shapes that the caller expects.

mod torch;
mod view;

use std::collections::BTreeMap;

pub use view::View;

use super::safetensors::{Header, TensorEntry};
use super::{ReadAt, StoredType};
use crate::{Error, Result};

/// The tensors of a file, by name.
#[derive(Debug, Default)]
pub struct Checkpoint<'a> {
    tensors: BTreeMap<String, View<'a>>,
    left_out: Vec<String>,
}

impl<'a> Checkpoint<'a> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// `Truncated` or `Corrupt` if the file violates its format, `Unsupported` for other formats.
    pub fn read(file: &'a dyn ReadAt) -> Result<Self> {
        match kind(file) {
            Some(Format::Zip) => torch::read(file),
            Some(Format::Legacy) => Err(Error::unsupported("PyTorch's old format, before 1.6, is not supported")
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
            let dtype = StoredType::from_safetensors(dtype);
            let shape: Option<Vec<usize>> = shape.iter().map(|&extent| usize::try_from(extent).ok()).collect();
            let shape = shape.filter(|shape| {
                let len = dtype.size().map(|len| shape.iter().try_fold(len, |n, &extent| n.checked_mul(extent)));
                len.is_none_or(|len| len == usize::try_from(bytes[1] - bytes[0]).ok())
            });
            let shape = shape.ok_or_else(|| {
                let message = format!("not a valid safetensors file: {name}: its bytes do not fit its type and shape");
                Error::corrupt(message)
            })?;
            // If the size of an element is unknown, nothing is read.
            let strides = dtype.size().map_or_else(|| vec![0; shape.len()], |_| view::row_major(&shape));
            tensors.insert(name.clone(), View { dtype, shape, strides, file, at: header.len + bytes[0] });
        }
        Ok(Self { tensors, left_out: Vec::new() })
    }

    /// Returns the tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&View<'a>> {
        self.tensors.get(name)
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns the names of the entries besides the state dict that was read.
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

/// Returns whether a file starts like a PyTorch checkpoint, in the current format or the one before
/// 1.6.
pub(crate) fn is_torch(file: &dyn ReadAt) -> bool {
    kind(file).is_some()
}

#[cfg(test)]
pub(crate) mod tests;
