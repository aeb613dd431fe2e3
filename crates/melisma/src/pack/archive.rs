//! An open packed file: its contents and its tiles.

use melisma_kernels::Device;

use super::blob::{ALIGN, Blob};
use super::gpu_index::{self, GpuIndex};
use super::hash::hash;
use super::memory::{self, Need};
use super::storage::{ReadAt, exclusive_or, read};
use super::trailer::{HASH_LEN, Trailer};
use super::{Layout, TRAILER, VERSION, VERSION_KEY};
use crate::format::safetensors::{Header, TensorEntry};
use crate::runtime::memory::Budget;
use crate::{Error, Kind, Remedy, Result};

/// A packed file. Opening it reads and checks the header, trailer and indices, but not the tiles.
pub struct Archive<'a> {
    pub(super) file: &'a dyn ReadAt,
    pub(super) source: Header,
    pub(super) trailer: Trailer,
    /// In the order of `source`.
    pub(super) blobs: Vec<Blob>,
    pub(super) index: Option<GpuIndex>,
    lens: Vec<u64>,
    pub(super) base: Option<(&'a dyn ReadAt, Header)>,
    pub(super) budget: Budget,
    /// The GPU that decodes it; the CPU if `None`.
    pub(super) gpu: Option<Device>,
}

/// A tensor in a listing.
#[derive(Debug, Clone, PartialEq)]
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
        let Contents { header, trailer, source } = Contents::read(file)?;
        let packed = &header.tensors[..header.tensors.len() - 1];
        let (packed, index) = match packed.split_last() {
            Some((index, packed)) if index.name == gpu_index::NAME => (packed, Some(index)),
            _ => (packed, None),
        };
        if source.tensors.len() != packed.len() {
            let message = format!("{} packed tensors, the source has {}", packed.len(), source.tensors.len());
            return Err(Error::corrupt(message));
        }
        let mut blobs = Vec::with_capacity(packed.len());
        for (packed, tensor) in packed.iter().zip(&source.tensors) {
            if packed.name != tensor.name || packed.dtype != "U8" || packed.shape != [packed.len()] {
                return Err(Error::corrupt(format!("{}: not the blob of {}", packed.name, tensor.name)));
            }
            let at = header.len + packed.bytes[0];
            if !at.is_multiple_of(ALIGN) || !packed.len().is_multiple_of(ALIGN) {
                return Err(Error::corrupt(format!("{}: not on a multiple of {ALIGN} bytes", packed.name)));
            }
            blobs.push(Blob::read(file, tensor, at, packed.len())?);
        }
        let lens = packed.iter().map(TensorEntry::len).collect();
        let at = |entry: &TensorEntry| (header.len + entry.bytes[0], entry.len());
        let index = index.map(at).map(|(at, len)| GpuIndex::read(file, &blobs, at, len)).transpose()?;
        Ok(Self { file, source, trailer, blobs, index, lens, base: None, budget: budget.clone(), gpu: None })
    }

    /// Sets the base file of a delta.
    ///
    /// # Errors
    /// `InvalidArgument`: this is not a delta, or it was made against another file.
    pub fn with_base(mut self, base: &'a dyn ReadAt) -> Result<Self> {
        if !self.is_delta() {
            return Err(Error::invalid("this packed file is complete, it needs no base"));
        }
        if hash(base)? != self.trailer.base {
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

    /// Whether unpacking needs a base file.
    pub fn is_delta(&self) -> bool {
        self.trailer.base != [0; 32]
    }

    /// Whether it has an index for GPUs.
    pub fn has_gpu_index(&self) -> bool {
        self.index.is_some()
    }

    /// The header of the source file.
    pub fn source(&self) -> &Header {
        &self.source
    }

    /// Bytes of the source file.
    pub fn source_len(&self) -> u64 {
        self.trailer.source_len
    }

    /// Lists the tensors.
    ///
    /// # Errors
    /// `Version`: a tile uses a mode that this build does not know.
    pub fn list(&self) -> Result<Vec<TensorInfo>> {
        let infos = self.source.tensors.iter().zip(&self.blobs).zip(&self.lens).map(|((entry, blob), &packed_len)| {
            let modes = (0..blob.layout.split.width()).map(|plane| modes(blob, plane)).collect::<Result<_>>();
            Ok(TensorInfo { entry: entry.clone(), packed_len, layout: blob.layout, modes: modes? })
        });
        infos.collect()
    }

    pub(super) fn find(&self, name: &str) -> Result<usize> {
        self.source.tensors.iter().position(|tensor| tensor.name == name).ok_or_else(|| {
            let near = crate::config::nearest(name, self.source.tensors.iter().map(|t| t.name.as_str()));
            let error = Error::invalid(format!("unknown tensor `{name}`"));
            match near {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error.with_hint(Remedy::ListTensors),
            }
        })
    }

    /// Undoes the XOR with the base file, for bytes of tensor `index` from `at` on.
    pub(super) fn apply_base(&self, index: usize, at: u64, bytes: &mut [u8]) -> Result<()> {
        let name = &self.source.tensors[index].name;
        let (file, header) = self
            .base
            .as_ref()
            .ok_or_else(|| Error::invalid(format!("{name}: this is a delta")).with_hint(Remedy::GiveBase))?;
        let entry = header.get(name).ok_or_else(|| Error::corrupt(format!("{name}: the base has no such tensor")))?;
        exclusive_or(*file, header.len + entry.bytes[0] + at, bytes)
    }

    /// Bytes that the header and the indices take up while the file is open.
    pub(super) fn known_bytes(&self) -> u64 {
        memory::known(self.source.len, self.blobs.iter().map(|blob| blob.tiles.len() as u64).sum())
    }

    /// The memory that decoding these tensors needs.
    pub(super) fn decoding_need(&self, tensors: std::ops::Range<usize>) -> Need {
        memory::decoding(self.known_bytes(), &self.blobs[tensors])
    }

    /// The file's hash as recorded in the trailer.
    pub(super) fn stored_hash(&self) -> Result<[u8; HASH_LEN]> {
        let mut hash = [0; HASH_LEN];
        hash.copy_from_slice(&read(self.file, self.file.size()? - HASH_LEN as u64, HASH_LEN)?);
        Ok(hash)
    }
}

/// The header of the source of a packed file; reads nothing else.
///
/// # Errors
/// As [`Archive::open`].
pub fn source_header(file: &dyn ReadAt) -> Result<Header> {
    Ok(Contents::read(file)?.source)
}

/// The headers of a packed file and of its source.
struct Contents {
    /// The header of the packed file. Its last tensor is the trailer.
    header: Header,
    trailer: Trailer,
    source: Header,
}

impl Contents {
    fn read(file: &dyn ReadAt) -> Result<Self> {
        let header = Header::read(file)?;
        match header.metadata.get(VERSION_KEY).map(String::as_str) {
            None => {
                return Err(Error::invalid("this safetensors file is not packed").with_hint(Remedy::Pack));
            }
            Some(version) if version != VERSION.to_string() => {
                let message = format!("format version `{version}`; this build reads {VERSION}");
                return Err(Error::new(Kind::Version, message).with_hint("a newer version of Melisma may read it"));
            }
            Some(_) => {}
        }
        let Some(last) = header.tensors.last().filter(|last| last.name == TRAILER) else {
            return Err(Error::corrupt(format!("the last tensor is not {TRAILER}")));
        };
        let (trailer, source) = Trailer::read(file, header.len + last.bytes[0], last.len())?;
        Ok(Self { header, trailer, source })
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
