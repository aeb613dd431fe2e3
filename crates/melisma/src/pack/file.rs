//! Files packed and restored in one call.

use std::path::Path;

use super::archive::Archive;
use super::index::open;
use super::storage::ReadAt;
use super::torch::{Converted, is_checkpoint};
use super::writer::{Options, Packed, pack};
use crate::output::{self, Existing, OutputFile};
use crate::runtime::device::host_threads;
use crate::{Context, Result};

/// Packs the safetensors file or PyTorch checkpoint `source` into the file `target`, on all cores.
///
/// # Errors
/// As [`pack`], or a file cannot be read or written, or `target` exists and may not be replaced.
pub fn pack_file(source: impl AsRef<Path>, target: impl AsRef<Path>, existing: Existing) -> Result<Packed> {
    pack_file_in(&Context::cpu()?, source, target, existing)
}

/// Packs a file with the threads and the memory of `context`.
///
/// # Errors
/// As [`pack_file`].
pub fn pack_file_in(
    context: &Context,
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    existing: Existing,
) -> Result<Packed> {
    let (source, target) = (source.as_ref(), target.as_ref());
    let file = open(source)?;
    output::refuse_same(target, source)?;
    let converted = if is_checkpoint(&file) { Some(Converted::read(&file)) } else { None };
    let converted = converted.transpose().map_err(|error| error.at(source.display()))?;
    let from: &dyn ReadAt = converted.as_ref().map_or(&file, |converted| converted);
    let options = Options::new(context.budget()).with_threads(host_threads(context.device()));
    let mut out = OutputFile::create(target, existing)?;
    let packed = pack(from, &mut out, &options, &|_| {}).map_err(|error| error.at(source.display()))?;
    out.commit()?;
    Ok(packed)
}

/// Restores the file that was packed into `packed`, byte for byte, as the file `target`, on all cores.
///
/// # Errors
/// As [`Archive::unpack`], or a file cannot be read or written, or `target` exists and may not be replaced.
pub fn unpack_file(packed: impl AsRef<Path>, target: impl AsRef<Path>, existing: Existing) -> Result<()> {
    unpack_file_in(&Context::cpu()?, packed, target, existing)
}

/// Restores a file on the device and with the threads and the memory of `context`.
///
/// # Errors
/// As [`unpack_file`].
pub fn unpack_file_in(
    context: &Context,
    packed: impl AsRef<Path>,
    target: impl AsRef<Path>,
    existing: Existing,
) -> Result<()> {
    let (packed, target) = (packed.as_ref(), target.as_ref());
    let file = open(packed)?;
    output::refuse_same(target, packed)?;
    let mut out = OutputFile::create(target, existing)?;
    let archive = Archive::open(&file, context.budget()).map(|archive| archive.on(context.device()));
    let unpacked = archive.and_then(|archive| archive.unpack(&mut out, host_threads(context.device()), &|_| {}));
    unpacked.map_err(|error| error.at(packed.display()))?;
    out.commit()
}
