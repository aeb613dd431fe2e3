//! Lossless compression of weights: packs a safetensors file into a smaller one, and verifies every
//! tile.
//!
//! `docs/format.md` of the repository specifies the format. A packed file keeps the names of its tensors. Each tensor
//! is a blob of tiles with an index, so a single tensor or tile can be read. `unpack` restores the
//! source file byte for byte.
//!
//! ```no_run
//! use melisma::{Existing, pack};
//!
//! pack::pack_file("model.safetensors", "model.packed.safetensors", Existing::Refuse)?;
//! for tensor in pack::load("model.packed.safetensors")?.tensors() {
//!     println!("{} {:?}", tensor.name, tensor.shape);
//! }
//! pack::unpack_file("model.packed.safetensors", "again.safetensors", Existing::Refuse)?;
//! # Ok::<(), melisma::Error>(())
//! ```
//!
//! With other settings, [`pack()`] reads any [`ReadAt`] such as [`std::fs::File`] and writes to any [`Sink`]; an [`Archive`]
//! reads the result, and [`Archive::unpack`] writes to any [`Append`]. Byte vectors are all three.
//!
//! ```
//! use melisma::Budget;
//! use melisma::pack::{self, Archive, Options};
//!
//! let header = br#"{"w":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}}        "#;
//! let mut source = (header.len() as u64).to_le_bytes().to_vec();
//! source.extend_from_slice(header);
//! source.extend_from_slice(&[0x80, 0x3f].repeat(8));
//! let budget = Budget::limited(64 << 20);
//! let mut packed = Vec::new();
//! pack::pack(&source, &mut packed, &Options::new(&budget), &|_| {})?;
//! let mut restored = Vec::new();
//! Archive::open(&packed, &budget)?.unpack(&mut restored, 1, &|_| {})?;
//! assert_eq!(restored, source);
//! # Ok::<(), melisma::Error>(())
//! ```

mod archive;
mod array;
mod blob;
mod contents;
mod file;
mod gpu_index;
mod hash;
mod header;
mod in_order;
mod index;
mod layout;
mod load;
mod memory;
mod piece;
mod region;
mod storage;
mod stream;
mod tile;
mod tile_size;
mod torch;
mod trailer;
mod unpack;
mod writer;

use std::path::{Path, PathBuf};

#[doc(no_inline)]
pub use crate::format::ReadAt;
pub use crate::format::safetensors::{Header, TensorEntry};
pub use archive::{Archive, TensorInfo};
pub use array::{Array, compress, compress_into, decompress};
pub use contents::Contents;
#[doc(hidden)]
pub use contents::source_header;
pub use file::{pack_file, pack_file_in, unpack_file, unpack_file_in};
pub use gpu_index::SEGMENT;
pub use index::{Index, open, packed_path};
#[doc(hidden)]
pub use layout::split_of;
pub use layout::{Layout, TILE_SIZES};
#[doc(hidden)]
pub use load::load_to_device;
pub use load::{Loaded, Loader, load, load_in};
#[doc(hidden)]
pub use melisma_kernels::rans::{Decoder, Encoder, Mode, Split, Tile};
pub use region::Region;
pub use storage::{Append, Sink};
pub use torch::{Converted, is_checkpoint};
pub use writer::{Options, Packed, pack};

/// The version that this build writes, and the latest one it reads.
pub const VERSION: u32 = 1;
/// The metadata key that holds the version.
const VERSION_KEY: &str = "melisma.pack";
/// The name of the last tensor: the source's header, and the hash of everything before it.
const TRAILER: &str = "__melisma__";
/// How the names of packed files end.
const SUFFIX: &str = ".packed.safetensors";
/// How the names of the indices of packed shards end.
const INDEX_SUFFIX: &str = ".packed.safetensors.index.json";

/// Returns the only index of packed shards in `folder`, whatever the model is called; `None` if there is none.
///
/// # Errors
/// There are several: the message names them.
pub(crate) fn only_index(folder: &Path) -> crate::Result<Option<PathBuf>> {
    only_file(folder, |name| name.ends_with(INDEX_SUFFIX))
}

/// Returns the only packed file in `folder`, whatever its name; `None` if there is none. Names that say that they are
/// packed come first.
///
/// # Errors
/// There are several: the message names them.
pub(crate) fn only_weights(folder: &Path) -> crate::Result<Option<PathBuf>> {
    let is_packed_file = |path: &Path| open(path).and_then(|file| is_packed(&file)).unwrap_or(false);
    match only_file(folder, |name| name.ends_with(SUFFIX))? {
        Some(path) => Ok(Some(path)),
        None => only_file(folder, |name| name.ends_with(".safetensors") && is_packed_file(&folder.join(name))),
    }
}

fn only_file(folder: &Path, is_one: impl Fn(&str) -> bool) -> crate::Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_one(name) && folder.join(name).is_file()).collect();
    names.sort();
    if names.len() > 1 {
        let message = format!("{}: several packed models: {}", folder.display(), names.join(", "));
        return Err(crate::Error::invalid(message).with_hint("leave one of them in the folder, or call it model"));
    }
    Ok(names.pop().map(|name| folder.join(name)))
}

/// Returns whether `file` is a packed safetensors file rather than a plain one.
///
/// # Errors
/// The header cannot be read; see [`Header::read`].
pub fn is_packed(file: &dyn ReadAt) -> crate::Result<bool> {
    Ok(Header::read(file)?.metadata.contains_key(VERSION_KEY))
}
