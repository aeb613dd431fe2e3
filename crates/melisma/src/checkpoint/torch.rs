//! PyTorch checkpoints: a zip file with `data.pkl`, which describes the tensors, and one `data/KEY` for each storage.

use std::collections::BTreeMap;

use super::{Checkpoint, DType, View, pickle, zip};
use crate::{Error, Kind, Result};

pub fn read(bytes: &[u8]) -> Result<Checkpoint<'_>> {
    let files = zip::entries(bytes)?;
    let mut pickles = files.iter().filter_map(|(name, data)| Some((name.strip_suffix("data.pkl")?, *data)));
    let (root, program) = pickles.next().ok_or_else(|| corrupt("a zip file without data.pkl: not a checkpoint"))?;
    if pickles.next().is_some() {
        return Err(corrupt("a checkpoint with more than one data.pkl"));
    }
    if let Some(order) = files.get(format!("{root}byteorder").as_str())
        && *order != b"little"
    {
        return Err(Error::unsupported("a checkpoint of a big-endian machine"));
    }
    let mut tensors = BTreeMap::new();
    // Elements taken from each storage. Tensors may share one, but not its elements: otherwise a small file could
    // stand for any amount of weights.
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, tensor) in pickle::read(program).map_err(|error| error.at("data.pkl"))? {
        let file = format!("{root}data/{}", tensor.key);
        let storage =
            files.get(file.as_str()).ok_or_else(|| corrupt(format!("{name}: its storage {file} is missing")))?;
        let view = view(&tensor, storage).map_err(|error| error.at(name))?;
        let taken = taken.entry(tensor.key).or_default();
        *taken = taken.saturating_add(view.shape.iter().product());
        if view.dtype.bytes().is_some_and(|len| *taken > storage.len() / len) {
            return Err(corrupt(format!("{name}: overlaps itself or another tensor in {file}")));
        }
        tensors.insert(name.to_owned(), view);
    }
    Ok(Checkpoint { tensors })
}

fn view<'a>(tensor: &pickle::Tensor<'_>, storage: &'a [u8]) -> Result<View<'a>> {
    let dtype = tensor.dtype;
    let (shape, strides) = (tensor.shape.clone(), tensor.strides.clone());
    if shape.len() != strides.len() {
        return Err(corrupt(format!("{} dimensions with {} strides", shape.len(), strides.len())));
    }
    let Some(element_len) = dtype.bytes() else { return Ok(View { dtype, shape, strides, data: &[] }) };
    let needed = elements_spanned(&shape, &strides)
        .and_then(|span| span.checked_add(tensor.offset)?.checked_mul(element_len))
        .ok_or_else(|| corrupt(format!("shape {shape:?} with strides {strides:?} is too large")))?;
    if needed > storage.len() {
        let message = format!("shape {shape:?} needs {needed} bytes, its storage has {}", storage.len());
        return Err(Error::new(Kind::Truncated, message));
    }
    let data = storage.get(tensor.offset * element_len..).unwrap_or(&[]);
    Ok(View { dtype, shape, strides, data })
}

/// One more than the largest element index that the shape reaches, 0 for an empty tensor.
fn elements_spanned(shape: &[usize], strides: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent))?;
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .zip(strides)
        .try_fold(1_usize, |span, (&extent, &stride)| span.checked_add((extent - 1).checked_mul(stride)?))
}

impl DType {
    /// The type of a storage class of PyTorch.
    pub(super) fn from_storage(class: &str) -> Option<Self> {
        Some(match class {
            "DoubleStorage" => Self::F64,
            "FloatStorage" => Self::F32,
            "HalfStorage" => Self::F16,
            "BFloat16Storage" => Self::Bf16,
            "LongStorage" => Self::Other("i64"),
            "IntStorage" => Self::Other("i32"),
            "ShortStorage" => Self::Other("i16"),
            "CharStorage" => Self::Other("i8"),
            "ByteStorage" => Self::Other("u8"),
            "BoolStorage" => Self::Other("bool"),
            _ => return None,
        })
    }
}

fn corrupt(message: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, message)
}
