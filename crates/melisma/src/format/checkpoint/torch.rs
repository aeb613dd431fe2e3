//! PyTorch checkpoints: a zip file with `data.pkl`, which describes the tensors, and one `data/KEY`
//! per storage.

use std::collections::BTreeMap;

use super::{Checkpoint, View};
use crate::format::read_at::{ReadAt, read as read_bytes};
use crate::format::{pickle, zip};
use crate::{Error, Result};

/// The limit for the total size of the tensors, as a multiple of the file's size. Tied weights are
/// stored once under several names; without a limit, a small file could expand to any amount of
/// weights.
const MAX_SHARING: u64 = 64;

pub fn read(file: &dyn ReadAt) -> Result<Checkpoint<'_>> {
    let files = zip::entries(file)?;
    let mut pickles = files.iter().filter_map(|(name, entry)| Some((name.strip_suffix("data.pkl")?, *entry)));
    let (root, program) =
        pickles.next().ok_or_else(|| Error::corrupt("a zip file without data.pkl: not a checkpoint"))?;
    if pickles.next().is_some() {
        return Err(Error::corrupt("a checkpoint with more than one data.pkl"));
    }
    if let Some(order) = files.get(&format!("{root}byteorder"))
        && read_bytes(file, order.at, order.len.min(16) as usize)? != b"little"
    {
        return Err(Error::unsupported("checkpoints of big-endian machines are not supported"));
    }
    if program.len > pickle::MAX_PROGRAM_LEN as u64 {
        let message = format!("data.pkl: {} bytes of pickle; at most {}", program.len, pickle::MAX_PROGRAM_LEN);
        return Err(Error::unsupported(message));
    }
    let program = read_bytes(file, program.at, program.len as usize)?;
    let found = pickle::decode(&program).map_err(|error| error.at("data.pkl"))?;
    let mut tensors = BTreeMap::new();
    let mut total = 0u64;
    for (name, tensor) in found.tensors {
        let storage = format!("{root}data/{}", tensor.key);
        let entry = files.get(&storage);
        let entry = entry.ok_or_else(|| Error::corrupt(format!("{name}: its storage {storage} is missing")))?;
        let view = view(tensor, file, *entry, &storage).map_err(|error| error.at(name))?;
        total = total.saturating_add(view.n_bytes()?);
        tensors.insert(name.to_owned(), view);
    }
    let limit = file.size()?.saturating_mul(MAX_SHARING);
    if total > limit {
        let message = format!("the tensors share their storages and have {total} bytes together; at most {limit}");
        return Err(Error::corrupt(message));
    }
    Ok(Checkpoint { tensors, left_out: found.left_out })
}

fn view<'a>(tensor: pickle::Tensor<'_>, file: &'a dyn ReadAt, entry: zip::Entry, storage: &str) -> Result<View<'a>> {
    let pickle::Tensor { dtype, shape, strides, offset, .. } = tensor;
    if shape.len() != strides.len() {
        return Err(Error::corrupt(format!("a tensor has {} dimensions and {} strides", shape.len(), strides.len())));
    }
    let element_len =
        dtype.size().ok_or_else(|| Error::unsupported(format!("unsupported element type {}", dtype.name())))?;
    let needed = elements_spanned(&shape, &strides)
        .and_then(|span| span.checked_add(offset)?.checked_mul(element_len))
        .ok_or_else(|| Error::corrupt(format!("shape {shape:?} with strides {strides:?} is too large")))?;
    if needed as u64 > entry.len {
        let message = format!("shape {shape:?} needs {needed} bytes, its storage has {}", entry.len);
        return Err(Error::truncated(message));
    }
    // Checked above, so it does not overflow.
    if (shape.iter().product::<usize>() * element_len) as u64 > entry.len {
        return Err(Error::corrupt(format!("overlaps itself in {storage}")));
    }
    Ok(View { dtype, shape, strides, file, at: entry.at + (offset * element_len) as u64 })
}

/// Returns one more than the largest element index that the shape reaches; 0 for an empty tensor.
fn elements_spanned(shape: &[usize], strides: &[usize]) -> Option<usize> {
    // Leaves room for the bytes of the widest elements.
    shape.iter().try_fold(8_usize, |product, &extent| product.checked_mul(extent))?;
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .zip(strides)
        .try_fold(1_usize, |span, (&extent, &stride)| span.checked_add((extent - 1).checked_mul(stride)?))
}
