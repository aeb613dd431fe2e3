//! A packed tensor: a header, the records of its tiles, the index, and a hash of the name, header
//! and index.

use melisma_kernels::rans::{Split, Tile};

use super::VERSION;
use super::layout::{Layout, TILE_SIZES};
use super::storage::{ReadAt, read};
use crate::format::safetensors::TensorEntry;
use crate::{Error, ErrorKind, Result};

const MAGIC: [u8; 4] = *b"MLPK";
/// Bytes before the first record.
pub(super) const HEADER_LEN: u64 = 32;
/// Length of the truncated BLAKE3 hash at the end.
const DIGEST_LEN: usize = 16;
/// Alignment of blobs in the file.
pub(super) const ALIGN: u64 = 64;

/// What the tiles hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The tensor's bytes.
    Plain = 0,
    /// The XOR of the tensor's bytes with those of the same tensor in a base file.
    Delta = 1,
}

/// Returns the header of a blob.
pub(super) fn header(layout: &Layout, content: Content) -> [u8; HEADER_LEN as usize] {
    let mut bytes = [0; HEADER_LEN as usize];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&[VERSION as u8, layout.split.number(), content as u8, 0]);
    bytes[8..12].copy_from_slice(&layout.tile_size.to_le_bytes());
    bytes[16..24].copy_from_slice(&layout.rows.to_le_bytes());
    bytes[24..].copy_from_slice(&layout.cols.to_le_bytes());
    bytes
}

/// Returns the end of a blob after `written` bytes: padding, index and hash.
pub(super) fn footer(name: &str, header: &[u8], tiles: &[Tile], written: u64) -> Vec<u8> {
    let index_len = Tile::STORED * tiles.len() + DIGEST_LEN;
    let end = (written + index_len as u64).next_multiple_of(ALIGN);
    let mut bytes = vec![0; (end - written) as usize - index_len];
    let start = bytes.len();
    tiles.iter().for_each(|tile| bytes.extend_from_slice(&tile.to_bytes()));
    let digest = digest(name, header, &bytes[start..]);
    bytes.extend_from_slice(&digest);
    bytes
}

fn digest(name: &str, header: &[u8], index: &[u8]) -> [u8; DIGEST_LEN] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(header).update(index);
    let mut digest = [0; DIGEST_LEN];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..DIGEST_LEN]);
    digest
}

/// A blob whose header and index have been read and checked.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) layout: Layout,
    pub(super) content: Content,
    pub(super) tiles: Vec<Tile>,
    /// Where each record begins in the file.
    pub(super) starts: Vec<u64>,
}

impl Blob {
    /// Reads the blob of `tensor`, which has `len` bytes from `at` on in the file.
    pub(super) fn read(file: &dyn ReadAt, tensor: &TensorEntry, at: u64, len: u64) -> Result<Self> {
        Self::parse(file, tensor, at, len).map_err(|error| error.at(&tensor.name))
    }

    fn parse(file: &dyn ReadAt, tensor: &TensorEntry, at: u64, len: u64) -> Result<Self> {
        if len < HEADER_LEN + DIGEST_LEN as u64 {
            return Err(Error::corrupt(format!("a packed tensor has {len} bytes, fewer than its header")));
        }
        let stored = read(file, at, HEADER_LEN as usize)?;
        let (layout, content) = check_header(&stored, tensor)?;
        let index_len = layout.n_tiles().checked_mul(Tile::STORED as u64).filter(|&index_len| {
            index_len.checked_add(HEADER_LEN + DIGEST_LEN as u64).is_some_and(|needed| needed <= len)
        });
        let index_len = index_len
            .ok_or_else(|| Error::corrupt(format!("{} tiles do not fit into {len} bytes", layout.n_tiles())))?;
        let index_at = at + len - DIGEST_LEN as u64 - index_len;
        let index = read(file, index_at, index_len as usize + DIGEST_LEN)?;
        let (index, found) = index.split_at(index_len as usize);
        if digest(&tensor.name, &stored, index) != *found {
            return Err(Error::corrupt("the hash of its index is wrong"));
        }
        let tiles: Vec<Tile> = index.as_chunks().0.iter().map(Tile::from_bytes).collect();
        let mut starts = Vec::with_capacity(tiles.len());
        let mut next = at + HEADER_LEN;
        for tile in &tiles {
            starts.push(next);
            next += u64::from(tile.len);
        }
        let padding = index_at.checked_sub(next).filter(|&padding| padding < ALIGN);
        let padding = padding.ok_or_else(|| Error::corrupt("its records do not fill it"))?;
        if read(file, next, padding as usize)?.iter().any(|&byte| byte != 0) {
            return Err(Error::corrupt("padding that is not zero"));
        }
        Ok(Self { layout, content, tiles, starts })
    }
}

fn check_header(stored: &[u8], tensor: &TensorEntry) -> Result<(Layout, Content)> {
    if !stored.starts_with(&MAGIC) {
        return Err(Error::corrupt("this is not a packed tensor"));
    }
    if u32::from(stored[4]) != VERSION {
        return Err(Error::new(
            ErrorKind::Version,
            format!("format version {}; this build reads {VERSION}", stored[4]),
        ));
    }
    let content = match stored[6] {
        0 => Content::Plain,
        1 => Content::Delta,
        other => return Err(Error::new(ErrorKind::Version, format!("content {other}, which is not known"))),
    };
    let tile_size = u32::from_le_bytes([stored[8], stored[9], stored[10], stored[11]]);
    if !TILE_SIZES.contains(&tile_size) {
        return Err(Error::corrupt(format!("invalid tile size {tile_size}")));
    }
    let layout = Layout::of(tensor, tile_size)?;
    if header(&layout, content) != stored {
        let split = Split::ALL.get(usize::from(stored[5]));
        return Err(Error::corrupt(format!("its header (split {split:?}) does not agree with its type and shape")));
    }
    Ok((layout, content))
}
