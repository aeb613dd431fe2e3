//! What a packed file says of itself.

use super::blob::{ALIGN, Blob};
use super::gpu_index::{self, GpuIndex};
use super::storage::ReadAt;
use super::trailer::Trailer;
use super::{TRAILER, VERSION, VERSION_KEY, is_checkpoint};
use crate::format::safetensors::{Header, TensorEntry};
use crate::{Error, ErrorKind, Remedy, Result};

/// The header, trailer and indices of a packed file. For a file of many tensors, reading them is most of the work of
/// opening it; one copy serves every [`Archive`](super::Archive) of that file.
pub struct Contents {
    pub(super) source: Header,
    pub(super) trailer: Trailer,
    /// In the order of `source`.
    pub(super) blobs: Vec<Blob>,
    pub(super) index: Option<GpuIndex>,
    pub(super) lens: Vec<u64>,
}

impl Contents {
    /// Reads and checks them.
    ///
    /// # Errors
    /// As [`Archive::open`](super::Archive::open).
    pub fn read(file: &dyn ReadAt) -> Result<Self> {
        Self::parse(file).map_err(damaged)
    }

    fn parse(file: &dyn ReadAt) -> Result<Self> {
        let Headers { header, trailer, source } = Headers::read(file)?;
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
        Ok(Self { source, trailer, blobs, index, lens })
    }

    /// Returns the header of the source file.
    pub fn source(&self) -> &Header {
        &self.source
    }
}

/// Returns the header of the source of a packed file; reads nothing else.
///
/// # Errors
/// As [`Archive::open`](super::Archive::open).
#[doc(hidden)]
pub fn source_header(file: &dyn ReadAt) -> Result<Header> {
    Ok(Headers::read(file)?.source)
}

/// Adds what to do about a damaged file, if nothing better is known.
pub(super) fn damaged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Truncated if error.remedies().is_empty() => {
            error.with_hint("the file was cut off or damaged: make or fetch it again")
        }
        _ => error,
    }
}

/// The headers of a packed file and of its source.
struct Headers {
    /// The header of the packed file. Its last tensor is the trailer.
    header: Header,
    trailer: Trailer,
    source: Header,
}

impl Headers {
    fn read(file: &dyn ReadAt) -> Result<Self> {
        let header = Header::read(file).map_err(|error| match is_checkpoint(file) {
            true => Error::invalid("this PyTorch checkpoint is not packed").with_hint(Remedy::Pack),
            false => error,
        })?;
        match header.metadata.get(VERSION_KEY).map(String::as_str) {
            None => {
                return Err(Error::invalid("this safetensors file is not packed").with_hint(Remedy::Pack));
            }
            Some(version) if version != VERSION.to_string() => {
                let message = format!("format version `{version}`; this build reads {VERSION}");
                return Err(Error::new(ErrorKind::Version, message).with_hint("a newer version of Melisma may read it"));
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
