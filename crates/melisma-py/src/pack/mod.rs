//! `melisma.pack`: weights compressed without loss.

mod device;
mod file;
mod open;
mod shard;
mod source;
mod tile;

pub use device::{PyDeviceTensor, load_to_device};
pub use file::{compress, compressed, decompress, save};
pub use open::PyPackFile;
pub use shard::{index, pack_file, write_index};
pub use tile::{PyTileDecoder, PyTileEncoder};
