//! The subset of HDF5 that a dataset needs: superblock 2, object headers 2, contiguous datasets of
//! fixed size, and compact attributes. The header comes first and never changes, so the file is
//! always valid, and `mel` starts on a page.
//!
//! See the [file format
//! specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html), sections
//! II.B (superblock), IV.A.1.b (object headers) and IV.A.2 (messages).
//!
//! # Why our own writer?
//!
//! The C library puts one lock around every call, and a crash can leave a file that does not open.
//! All sizes are known before the first row, so a constant header and contiguous columns are
//! enough: any thread writes any row, and h5py reads the file.

mod checksum;
mod message;
mod read;

use std::path::Path;

pub(super) use read::open;

use super::{ColumnLocation, FilePlan, Layout};
use checksum::lookup3;

/// The first bytes of a file.
pub const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
const SUPERBLOCK_LEN: usize = 48;
/// The undefined address.
const UNDEFINED: u64 = u64::MAX;
/// Small columns start on a cache line, large ones on a page.
const SMALL_ALIGNMENT: u64 = 64;
const PAGE: u64 = 4096;

pub(super) fn lay_out(path: &Path, layout: &Layout) -> (Vec<FilePlan>, Vec<ColumnLocation>) {
    // The sizes of headers do not depend on the addresses they contain.
    let dataset_len = |column| object(message::dataset(column, layout.len(column), 0)).len() as u64;
    let root_len = object(message::root(layout, &vec![0; layout.columns.len()])).len() as u64;
    let mut at = SUPERBLOCK_LEN as u64 + root_len;
    let mut objects = Vec::new();
    for column in &layout.columns {
        objects.push(at);
        at += dataset_len(column);
    }
    let header_len = at;
    let mut places = Vec::new();
    for column in &layout.columns {
        let len = layout.len(column) * column.row_bytes() as u64;
        at = at.next_multiple_of(if column.shape.is_empty() { SMALL_ALIGNMENT } else { PAGE });
        places.push(ColumnLocation { file: 0, offset: at });
        at += len;
    }
    let mut header = superblock(at, SUPERBLOCK_LEN as u64);
    header.extend(object(message::root(layout, &objects)));
    for (column, place) in layout.columns.iter().zip(&places) {
        let len = layout.len(column);
        let address = if len == 0 { UNDEFINED } else { place.offset };
        header.extend(object(message::dataset(column, len, address)));
    }
    debug_assert_eq!(header.len() as u64, header_len);
    (vec![FilePlan { path: path.to_owned(), header, len: at }], places)
}

fn superblock(end_of_file: u64, root: u64) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    // Version, sizes of offsets and lengths, and consistency flags.
    bytes.extend([2, 8, 8, 0]);
    for address in [0, UNDEFINED, end_of_file, root] {
        bytes.extend(address.to_le_bytes());
    }
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

/// Returns an object header of one chunk.
fn object(messages: Vec<u8>) -> Vec<u8> {
    let mut bytes = b"OHDR".to_vec();
    // Version 2; the size of the chunk takes four bytes.
    bytes.extend([2, 2]);
    bytes.extend((messages.len() as u32).to_le_bytes());
    bytes.extend(messages);
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}
