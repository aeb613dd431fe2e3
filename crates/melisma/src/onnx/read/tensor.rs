//! Reads tensors: shape, type, and elements from one of seven fields or another file, converted to
//! one form.

use std::sync::Arc;

use super::super::external::DataLocation;
use super::super::tensor::{Data, STRINGS, Tensor, bits, shape};
use super::super::wire::Entry;
use super::Context;
use super::stream::{Item, Stream};
use crate::{Error, Result};

/// `raw_data`: the elements as bytes.
const RAW: u32 = 9;

/// The parts of a tensor that have been read.
#[derive(Default)]
struct Parts {
    name: String,
    dtype: i32,
    dims: Vec<i64>,
    elements: Fields,
    rest: Vec<u8>,
}

/// The fields that hold elements.
#[derive(Default)]
struct Fields {
    raw: Option<Vec<u8>>,
    /// float_data and double_data, as bytes.
    fixed: Vec<u8>,
    /// int32_data, int64_data and uint64_data.
    ints: Vec<i64>,
    texts: Vec<Vec<u8>>,
    external: Option<DataLocation>,
    is_external: bool,
}

/// Reads a tensor from a file, with its elements straight into their final place.
pub(super) fn streamed(mut fields: Stream<'_>, context: &mut Context<'_>) -> Result<Tensor> {
    context.count()?;
    let (place, mut parts) = (fields.place(), Parts::default());
    while let Some(item) = fields.next(RAW)? {
        match item {
            Item::Content(content) => parts.elements.raw = Some(fields.bytes(content)?),
            Item::FieldBytes(whole) => parts.add(&whole.entry()?, context)?,
        }
    }
    parts.tensor(place, context)
}

pub(super) fn tensor(entry: &Entry<'_>, context: &mut Context<'_>) -> Result<Tensor> {
    context.count()?;
    let mut parts = Parts::default();
    let mut fields = entry.message()?;
    while let Some(entry) = fields.next()? {
        parts.add(&entry, context)?;
    }
    parts.tensor(entry.at, context)
}

impl Parts {
    fn add(&mut self, entry: &Entry<'_>, context: &mut Context<'_>) -> Result<()> {
        let elements = &mut self.elements;
        match entry.number {
            1 => entry.ints(&mut self.dims)?,
            2 => self.dtype = i32::try_from(entry.int()?).unwrap_or(-1),
            3 => return Err(Error::unsupported("tensors in segments are not supported")),
            4 => entry.fixed(4, &mut elements.fixed)?,
            5 | 7 | 11 => entry.ints(&mut elements.ints)?,
            6 => {
                context.count()?;
                elements.texts.push(entry.bytes()?.to_vec());
            }
            8 => self.name = entry.text()?,
            RAW => elements.raw = Some(entry.bytes()?.to_vec()),
            10 => entry.fixed(8, &mut elements.fixed)?,
            13 => {
                context.count()?;
                elements.external.get_or_insert_default().add(entry)?;
            }
            14 => elements.is_external = entry.int()? == 1,
            _ => self.rest.extend(entry.raw),
        }
        Ok(())
    }

    fn tensor(self, place: usize, context: &mut Context<'_>) -> Result<Tensor> {
        let Self { name, dtype, dims, elements, rest } = self;
        let label = if name.is_empty() { format!("the tensor at byte {place}") } else { format!("tensor `{name}`") };
        let place = |error: Error| error.at(&label);
        let (shape, count) = shape(&dims).map_err(place)?;
        let data = data(elements, dtype, count, context).map_err(place)?;
        Ok(Tensor { name, dtype, shape, data, rest })
    }
}

fn data(elements: Fields, dtype: i32, count: usize, context: &mut Context<'_>) -> Result<Data> {
    if dtype == STRINGS {
        if elements.texts.len() != count {
            return Err(Error::corrupt(format!("{count} strings are expected, not {}", elements.texts.len())));
        }
        return Ok(Data::Strings(elements.texts));
    }
    let Some(bits) = bits(dtype) else { return Err(Error::unsupported(format!("unknown element type {dtype}"))) };
    let expected = (count * bits).div_ceil(8);
    let bytes = match elements {
        Fields { is_external: true, external, .. } => {
            let place = external.ok_or_else(|| Error::corrupt("external data without a place"))?;
            context.source.load(&place, expected)?
        }
        Fields { raw: Some(raw), .. } => raw,
        Fields { fixed, ints, .. } if ints.is_empty() => fixed,
        Fields { ints, .. } => narrow(&ints, bits)?,
    };
    if bytes.len() != expected {
        return Err(Error::corrupt(format!(
            "{count} elements of {bits} bits have {expected} bytes, not {}",
            bytes.len()
        )));
    }
    Ok(Data::Bytes(Arc::new(bytes)))
}

/// Narrows elements that were written as integers to their own width. Types below a byte come
/// packed in bytes.
fn narrow(ints: &[i64], bits: usize) -> Result<Vec<u8>> {
    let size = bits.div_ceil(8);
    if size > 8 {
        return Err(Error::corrupt(format!("elements of {bits} bits cannot be written as integers")));
    }
    Ok(ints.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect())
}
