//! PyTorch checkpoints as sources: `pack` sees each one as the safetensors file of its tensors.

use super::storage::ReadAt;
use crate::format::checkpoint::{Checkpoint, View};
use crate::format::safetensors::HeaderJson;
use crate::{Error, Result};

/// A checkpoint seen as a safetensors file. Tensors are read from the checkpoint on demand. Tensors
/// that share a storage are written once per name.
#[derive(Debug)]
pub struct Converted<'a> {
    header: Vec<u8>,
    /// Each tensor, with the offset of its first byte.
    tensors: Vec<(u64, View<'a>)>,
    size: u64,
    left_out: Vec<String>,
}

impl<'a> Converted<'a> {
    /// Reads the directory of a checkpoint.
    ///
    /// # Errors
    /// Those of [`Checkpoint::read`], or `Unsupported` for element types that safetensors lacks.
    pub fn read(file: &'a dyn ReadAt) -> Result<Self> {
        let checkpoint = Checkpoint::read(file)?;
        let (mut json, mut tensors) = (HeaderJson::new(&[]), Vec::new());
        for name in checkpoint.names() {
            let Some(view) = checkpoint.get(name) else { continue };
            let dtype = view.dtype.safetensors_name();
            let dtype =
                dtype.ok_or_else(|| Error::unsupported(format!("{name}: elements of type {}", view.dtype.name())))?;
            tensors.push((json.data_len(), view.clone()));
            let len = view.n_bytes().map_err(|error| error.at(name))?;
            json.push(name, dtype, &format!("{:?}", view.shape), len);
        }
        let end = json.data_len();
        let header = json.header();
        let start = header.len() as u64;
        tensors.iter_mut().for_each(|(begin, _)| *begin += start);
        Ok(Self { header, tensors, size: start + end, left_out: checkpoint.left_out().to_vec() })
    }

    /// Returns the names of the entries that the checkpoint holds besides its tensors.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

impl ReadAt for Converted<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.size) {
            return Err(crate::format::read_at::ends_at(at));
        }
        let of_header = self.header.get(at as usize..).unwrap_or_default();
        let (head, mut rest) = out.split_at_mut(of_header.len().min(out.len()));
        head.copy_from_slice(&of_header[..head.len()]);
        let mut at = at + head.len() as u64;
        let mut index = self.tensors.partition_point(|(begin, _)| *begin <= at).saturating_sub(1);
        while !rest.is_empty() {
            let next = self.tensors.get(index + 1).map_or(self.size, |(begin, _)| *begin);
            let (part, others) = rest.split_at_mut((next - at).min(rest.len() as u64) as usize);
            if !part.is_empty() {
                let (begin, view) = &self.tensors[index];
                view.read_at(at - begin, part)?;
            }
            (at, rest, index) = (at + part.len() as u64, others, index + 1);
        }
        Ok(())
    }
}

/// Returns whether a file starts like a PyTorch checkpoint, in the current format or the one before
/// 1.6.
pub fn is_checkpoint(file: &dyn ReadAt) -> bool {
    crate::format::checkpoint::is_torch(file)
}
