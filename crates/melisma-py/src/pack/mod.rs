//! `melisma.pack`: weights compressed without loss.

mod device;
mod file;
mod shard;
mod source;
mod tile;

pub use device::{PyDeviceTensor, load_to_device};
pub use file::{compress, compressed, decompress, list, load, save};
pub use shard::{index, pack_file, write_index};
pub use tile::{PyTileDecoder, PyTileEncoder};
