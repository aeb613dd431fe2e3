//! An open packed file: its contents and its tiles.

use std::sync::Arc;

use melisma_kernels::Device;

use super::Layout;
use super::blob::Blob;
use super::contents::Contents;
use super::hash::hash;
use super::memory::{self, Need};
use super::storage::{ReadAt, exclusive_or, read};
use super::trailer::HASH_LEN;
use crate::format::safetensors::{Header, TensorEntry};
use crate::runtime::memory::Budget;
use crate::{Error, Remedy, Result};

/// A packed file. Opening it reads and checks the header, trailer and indices, but not the tiles.
///
/// ```no_run
/// use melisma::Budget;
/// use melisma::pack::Archive;
///
/// let file = std::fs::File::open("model.packed.safetensors").expect("the file can be read");
/// let archive = Archive::open(&file, &Budget::limited(1 << 30))?;
/// for tensor in archive.list()? {
///     println!("{} {:?}", tensor.entry.name, tensor.entry.shape);
/// }
/// # Ok::<(), melisma::Error>(())
/// ```
pub struct Archive<'a> {
    pub(super) file: &'a dyn ReadAt,
    pub(super) contents: Arc<Contents>,
    pub(super) base: Option<(&'a dyn ReadAt, Header)>,
    pub(super) budget: Budget,
    /// The GPU that decodes it; the CPU if `None`.
    pub(super) gpu: Option<Device>,
}

/// A tensor in a listing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// The tensor as the source had it.
    pub entry: TensorEntry,
    /// Bytes of the tensor in the packed file.
    pub packed_len: u64,
    /// How the tensor is divided into tiles.
    pub layout: Layout,
    /// For each plane, highest first, the number of tiles stored in each mode.
    pub modes: Vec<Vec<(&'static str, u64)>>,
}

impl<'a> Archive<'a> {
    /// Opens a packed file for decoding within `budget`. Under a limit, fewer tiles are in flight.
    ///
    /// # Errors
    /// `InvalidArgument`: a plain safetensors file. `Version`: a newer build wrote it. `Corrupt` or
    /// `Truncated`: damaged.
    pub fn open(file: &'a dyn ReadAt, budget: &Budget) -> Result<Self> {
        Ok(Self::with(file, Arc::new(Contents::read(file)?), budget))
    }

    /// Opens a packed file whose contents were read before.
    pub fn with(file: &'a dyn ReadAt, contents: Arc<Contents>, budget: &Budget) -> Self {
        Self { file, contents, base: None, budget: budget.clone(), gpu: None }
    }

    /// Sets the base file of a delta.
    ///
    /// # Errors
    /// `InvalidArgument`: this is not a delta, or it was made against another file.
    pub fn with_base(mut self, base: &'a dyn ReadAt) -> Result<Self> {
        if !self.is_delta() {
            return Err(
                Error::invalid("this packed file is complete, it needs no base").with_hint("leave the base out")
            );
        }
        if hash(base)? != self.contents.trailer.base {
            return Err(Error::invalid("the base is not the file that this delta was made against")
                .with_hint("its BLAKE3 differs"));
        }
        self.base = Some((base, Header::read(base)?));
        Ok(self)
    }

    /// Selects the device that decodes the file. The bytes do not depend on it.
    pub fn on(mut self, device: &Device) -> Self {
        self.gpu = matches!(device, Device::Cuda(_)).then(|| device.clone());
        self
    }

    /// Returns whether unpacking needs a base file.
    pub fn is_delta(&self) -> bool {
        self.contents.trailer.base != [0; 32]
    }

    /// Returns whether it has an index for GPUs.
    pub fn has_gpu_index(&self) -> bool {
        self.contents.index.is_some()
    }

    /// Returns the header of the source file.
    pub fn source(&self) -> &Header {
        &self.contents.source
    }

    /// Returns the bytes of the source file.
    pub fn source_len(&self) -> u64 {
        self.contents.trailer.source_len
    }

    /// Lists the tensors.
    ///
    /// # Errors
    /// `Version`: a tile uses a mode that this build does not know.
    pub fn list(&self) -> Result<Vec<TensorInfo>> {
        let infos = self.contents.source.tensors.iter().zip(&self.contents.blobs).zip(&self.contents.lens).map(
            |((entry, blob), &packed_len)| {
                let modes = (0..blob.layout.split.width()).map(|plane| modes(blob, plane)).collect::<Result<_>>();
                Ok(TensorInfo { entry: entry.clone(), packed_len, layout: blob.layout, modes: modes? })
            },
        );
        infos.collect()
    }

    pub(super) fn find(&self, name: &str) -> Result<usize> {
        self.contents.source.tensors.iter().position(|tensor| tensor.name == name).ok_or_else(|| {
            let near = crate::config::nearest(name, self.contents.source.tensors.iter().map(|t| t.name.as_str()));
            let error = Error::invalid(format!("unknown tensor `{name}`"));
            match near {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error.with_hint(Remedy::ListTensors),
            }
        })
    }

    /// Undoes the XOR with the base file, for bytes of tensor `index` from `at` on.
    pub(super) fn apply_base(&self, index: usize, at: u64, bytes: &mut [u8]) -> Result<()> {
        let name = &self.contents.source.tensors[index].name;
        let (file, header) = self
            .base
            .as_ref()
            .ok_or_else(|| Error::invalid(format!("{name}: this is a delta")).with_hint(Remedy::GiveBase))?;
        let entry = header.get(name).ok_or_else(|| Error::corrupt(format!("{name}: the base has no such tensor")))?;
        exclusive_or(*file, header.len + entry.bytes[0] + at, bytes)
    }

    /// Returns the bytes that the header and the indices take up while the file is open.
    pub(super) fn known_bytes(&self) -> u64 {
        memory::known(self.contents.source.len, self.contents.blobs.iter().map(|blob| blob.tiles.len() as u64).sum())
    }

    /// Returns the memory that decoding these tensors needs.
    pub(super) fn decoding_need(&self, tensors: std::ops::Range<usize>) -> Need {
        memory::decoding(self.known_bytes(), &self.contents.blobs[tensors])
    }

    /// Returns the file's hash as recorded in the trailer.
    pub(super) fn stored_hash(&self) -> Result<[u8; HASH_LEN]> {
        let mut hash = [0; HASH_LEN];
        hash.copy_from_slice(&read(self.file, self.file.size()? - HASH_LEN as u64, HASH_LEN)?);
        Ok(hash)
    }
}

fn modes(blob: &Blob, plane: usize) -> Result<Vec<(&'static str, u64)>> {
    let mut counts: Vec<(&'static str, u64)> = Vec::new();
    for tile in &blob.tiles {
        let name = tile.mode(plane)?.name();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    Ok(counts)
}
