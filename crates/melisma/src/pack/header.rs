//! The header of a packed file. Its space is reserved first, and filled in after the blobs are
//! written.

use super::trailer::Trailer;
use super::{TRAILER, VERSION, VERSION_KEY, blob, gpu_index};
use crate::format::safetensors::{Header, HeaderJson, TensorEntry};
use crate::{Error, ErrorKind, Result};

/// Returns the most bytes that the packed file's header can take, a multiple of the blob alignment.
pub(super) fn reserved_len(header: &Header, source_len: u64, gpu_index: Option<u32>) -> u64 {
    // An upper bound for every offset: incompressible tensors grow by less than this allows.
    let digits = (2 * source_len + (1 << 20) * (header.tensors.len() as u64 + 1)).to_string().len() as u64;
    let fixed = r#""":{"dtype":"U8","shape":[],"data_offsets":[,]},"#.len() as u64 + 3 * digits;
    let name = |tensor: &TensorEntry| serde_json::to_string(&tensor.name).map_or(0, |name| name.len() as u64);
    let names: u64 = header.tensors.iter().map(|tensor| name(tensor) + fixed).sum();
    let index = gpu_index.map_or(0, |_| fixed + gpu_index::NAME.len() as u64);
    (8 + names + index + fixed + 100).next_multiple_of(blob::ALIGN)
}

pub(super) fn packed_header(header: &Header, lens: &[u64], header_len: u64) -> Result<Vec<u8>> {
    let mut json = HeaderJson::new(&[(VERSION_KEY, &VERSION.to_string())]);
    let index = (lens.len() > header.tensors.len()).then_some(gpu_index::NAME);
    let names = header.tensors.iter().map(|tensor| tensor.name.as_str()).chain(index).chain([TRAILER]);
    for (name, &len) in names.zip(lens.iter().chain([&Trailer::stored_len(header.len)])) {
        json.push(name, "U8", &format!("[{len}]"), len);
    }
    let mut bytes = (header_len - 8).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.finish().as_bytes());
    if bytes.len() as u64 > header_len {
        return Err(Error::new(ErrorKind::Check, "the header outgrew the room that was kept for it"));
    }
    bytes.resize(header_len as usize, b' ');
    Ok(bytes)
}
