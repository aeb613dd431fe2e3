//! Loads large weight files tensor by tensor: besides the tensors that the caller holds, memory
//! contains one at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use melisma_kernels::{DType, Device, Tensor};

use super::TensorOptimizer;
use crate::format::checkpoint::{self, Checkpoint};
use crate::pack::{self, Archive, Header, ReadAt, TensorEntry};
use crate::{Error, ErrorKind, Result};

/// A weight file: `.safetensors`, packed or not, or a PyTorch checkpoint.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    file: File,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Plain,
    Packed,
    Checkpoint,
}

impl Weights {
    /// Opens `path` and reads only its header.
    ///
    /// # Errors
    /// The file does not exist, or does not contain weights.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path.display(), error))?;
        let format = if pack::is_checkpoint(&file) {
            Format::Checkpoint
        } else if pack::is_packed(&file).map_err(|error| error.at(path.display()))? {
            Format::Packed
        } else {
            Format::Plain
        };
        Ok(Self { path: path.to_owned(), file, format })
    }

    /// Reads the tensors one at a time, optimizes each and passes it to `take`. The limit applies
    /// to live tensors: a tensor that was dropped or whose memory was freed does not count.
    ///
    /// # Errors
    /// [`ErrorKind::Memory`] if a tensor does not fit next to the live ones; `Unsupported` for
    /// unsupported element types; errors of `take`; and errors in the file's format. The message
    /// names the tensor.
    pub fn load(&self, optimizer: &TensorOptimizer, mut take: impl FnMut(&str, Tensor) -> Result<()>) -> Result<()> {
        let outcome = match self.format {
            Format::Plain => self.load_plain(optimizer, &mut take),
            Format::Packed => self.load_packed(optimizer, &mut take),
            Format::Checkpoint => self.load_checkpoint(optimizer, &mut take),
        };
        outcome.map_err(|error| error.at(self.path.display()))
    }

    fn load_plain(&self, optimizer: &TensorOptimizer, take: &mut dyn FnMut(&str, Tensor) -> Result<()>) -> Result<()> {
        let header = Header::read(&self.file)?;
        for entry in &header.tensors {
            let tensor = filled(optimizer, entry, |out| self.file.read_at(header.len + entry.bytes[0], out));
            give(optimizer, &entry.name, tensor, take)?;
        }
        Ok(())
    }

    fn load_packed(&self, optimizer: &TensorOptimizer, take: &mut dyn FnMut(&str, Tensor) -> Result<()>) -> Result<()> {
        let archive = Archive::open(&self.file, optimizer.memory().budget())?;
        let threads = match optimizer.queue().device() {
            Device::Cpu(cpu) => cpu.threads,
            Device::Cuda(_) => melisma_kernels::available_threads(),
        };
        for entry in &archive.source().tensors {
            let tensor = filled(optimizer, entry, |out| archive.unpack_into(vec![(&entry.name, out)], threads));
            give(optimizer, &entry.name, tensor, take)?;
        }
        Ok(())
    }

    fn load_checkpoint(
        &self,
        optimizer: &TensorOptimizer,
        take: &mut dyn FnMut(&str, Tensor) -> Result<()>,
    ) -> Result<()> {
        let checkpoint = Checkpoint::read(&self.file)?;
        for name in checkpoint.names() {
            let Some(view) = checkpoint.get(name) else { continue };
            give(optimizer, name, from_view(optimizer, view), take)?;
        }
        Ok(())
    }
}

fn give(
    optimizer: &TensorOptimizer,
    name: &str,
    tensor: Result<Tensor>,
    take: &mut dyn FnMut(&str, Tensor) -> Result<()>,
) -> Result<()> {
    let tensor = tensor.and_then(|tensor| optimizer.optimize_tensor(tensor, None));
    take(name, tensor.map_err(|error| error.at(name))?)
}

fn from_view(optimizer: &TensorOptimizer, view: &checkpoint::View<'_>) -> Result<Tensor> {
    let dtype = dtype(view.dtype.safetensors_name().unwrap_or("of no known type"))?;
    let mut tensor = Tensor::new(&Device::cpu()?, optimizer.memory().budget(), dtype, &view.shape)?;
    view.read_at(0, tensor.bytes_mut()?.host()?)?;
    Ok(tensor)
}

fn filled(
    optimizer: &TensorOptimizer,
    entry: &TensorEntry,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<Tensor> {
    let shape: Option<Vec<usize>> = entry.shape.iter().map(|&axis| usize::try_from(axis).ok()).collect();
    let shape = shape
        .ok_or_else(|| Error::new(ErrorKind::Memory, format!("shape {:?} does not fit into memory", entry.shape)))?;
    let mut tensor = Tensor::new(&Device::cpu()?, optimizer.memory().budget(), dtype(&entry.dtype)?, &shape)?;
    fill(tensor.bytes_mut()?.host()?)?;
    Ok(tensor)
}

fn dtype(name: &str) -> Result<DType> {
    Ok(match name {
        "F32" => DType::F32,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        "I64" => DType::I64,
        "I32" => DType::I32,
        "I16" => DType::I16,
        "U8" | "BOOL" => DType::U8,
        other => return Err(Error::unsupported(format!("unsupported element type {other}"))),
    })
}
