//! Files packed and restored in one call.

use std::path::Path;

use melisma_kernels::available_threads;

use super::archive::Archive;
use super::index::open;
use super::storage::ReadAt;
use super::torch::{Converted, is_checkpoint};
use super::writer::{Options, Packed, pack};
use crate::output::{self, Existing, OutputFile};
use crate::{Budget, Result};

/// Packs the safetensors file or PyTorch checkpoint `source` into the file `target`, on all cores.
///
/// # Errors
/// As [`pack`], or a file cannot be read or written, or `target` exists and may not be replaced.
pub fn pack_file(source: impl AsRef<Path>, target: impl AsRef<Path>, existing: Existing) -> Result<Packed> {
    let (source, target) = (source.as_ref(), target.as_ref());
    let file = open(source)?;
    output::refuse_among(target, [source])?;
    let converted = if is_checkpoint(&file) { Some(Converted::read(&file)) } else { None };
    let converted = converted.transpose().map_err(|error| error.at(source.display()))?;
    let from: &dyn ReadAt = converted.as_ref().map_or(&file, |converted| converted);
    let budget = Budget::unlimited();
    let mut out = OutputFile::create(target, existing)?;
    let packed = pack(from, &mut out, &Options::new(&budget).with_threads(available_threads()), &|_| {});
    let packed = packed.map_err(|error| error.at(source.display()))?;
    out.commit()?;
    Ok(packed)
}

/// Restores the file that was packed into `packed`, byte for byte, as the file `target`, on all cores.
///
/// # Errors
/// As [`Archive::unpack`], or a file cannot be read or written, or `target` exists and may not be replaced.
pub fn unpack_file(packed: impl AsRef<Path>, target: impl AsRef<Path>, existing: Existing) -> Result<()> {
    let (packed, target) = (packed.as_ref(), target.as_ref());
    let file = open(packed)?;
    output::refuse_among(target, [packed])?;
    let mut out = OutputFile::create(target, existing)?;
    let unpacked = Archive::open(&file, &Budget::unlimited())
        .and_then(|archive| archive.unpack(&mut out, available_threads(), &|_| {}));
    unpacked.map_err(|error| error.at(packed.display()))?;
    out.commit()
}
