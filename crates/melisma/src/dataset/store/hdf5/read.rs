//! Reads the files that [`super::lay_out`] writes, and no others.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Map, Value};

use super::checksum::lookup3;
use super::{SIGNATURE, SUPERBLOCK_LEN, UNDEFINED, message};
use crate::dataset::store::{Column, ColumnLocation, ColumnType, Layout, Store};
use crate::{DType, Error, Result};

/// The longest object header.
const MAX_OBJECT: usize = 1 << 20;
const MAX_AXES: usize = 8;

pub(in crate::dataset::store) fn open(path: &Path, file: File) -> Result<Store> {
    let len = file.metadata().map_err(|error| Error::io(path.display(), error))?.len();
    let superblock = bytes(&file, 0, SUPERBLOCK_LEN)?;
    if superblock[..8] != SIGNATURE || superblock[8] != 2 {
        return Err(Error::unsupported("an HDF5 file, but not one of ours"));
    }
    if lookup3(&superblock[..44]) != u32_at(&superblock, 44)? {
        return Err(Error::corrupt("the superblock's checksum is wrong"));
    }
    if u64_at(&superblock, 28)? != len {
        return Err(Error::truncated(format!("{} bytes are declared, {len} are there", u64_at(&superblock, 28)?)));
    }
    let mut layout = Layout { n_rows: 0, columns: Vec::new(), attributes: Map::new() };
    let mut places = Vec::new();
    for (kind, body) in messages(&object(&file, u64_at(&superblock, 36)?)?)? {
        match kind {
            message::LINK => {
                let (name, address) = link(body)?;
                let (column, offset) = dataset(&file, name, address)?;
                let n = column.len.unwrap_or(0);
                let end = (column.row_bytes() as u64).checked_mul(n).and_then(|size| size.checked_add(offset));
                if n > 0 && end.is_none_or(|end| end > len) {
                    return Err(Error::corrupt(format!("{} lies beyond the end of the file", column.name)));
                }
                layout.columns.push(column);
                places.push(ColumnLocation { file: 0, offset });
            }
            message::ATTRIBUTE => {
                let (name, value) = attribute(body)?;
                layout.attributes.insert(name, value);
            }
            _ => {}
        }
    }
    layout.settle()?;
    Ok(Store { layout, paths: vec![path.to_owned()], files: vec![file], places, maps: Vec::new() })
}

/// Returns the messages of the object header at `address`, after checking its checksum.
fn object(file: &File, address: u64) -> Result<Vec<u8>> {
    let head = bytes(file, address, 10)?;
    let len = u32_at(&head, 6)? as usize;
    if head[..6] != *b"OHDR\x02\x02" || len > MAX_OBJECT {
        return Err(Error::corrupt(format!("no object header of ours at byte {address}")));
    }
    let all = bytes(file, address, 10 + len + 4)?;
    if lookup3(&all[..10 + len]) != u32_at(&all, 10 + len)? {
        return Err(Error::corrupt(format!("the checksum of the object header at byte {address} is wrong")));
    }
    Ok(all[10..10 + len].to_vec())
}

fn messages(mut bytes: &[u8]) -> Result<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(u16_at(bytes, 1)?);
        let body = bytes.get(4..4 + len).ok_or_else(|| Error::corrupt("a message is longer than its header"))?;
        found.push((bytes[0], body));
        bytes = &bytes[4 + len..];
    }
    Ok(found)
}

fn link(body: &[u8]) -> Result<(String, u64)> {
    let len = usize::from(*body.get(2).ok_or_else(|| Error::corrupt("a link without a name"))?);
    let name = body.get(3..3 + len).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| Error::corrupt("a link whose name is not text"))?;
    Ok((name.to_owned(), u64_at(body, 3 + len)?))
}

/// Returns a column, and the address of its data.
fn dataset(file: &File, name: String, address: u64) -> Result<(Column, u64)> {
    let header = object(file, address)?;
    let (mut axes, mut element, mut offset) = (None, None, None);
    for (kind, body) in messages(&header)? {
        match kind {
            message::DATASPACE => axes = Some(dataspace(body)?),
            message::DATATYPE => element = Some(datatype(body)?),
            message::LAYOUT => offset = Some(u64_at(body, 2)?),
            _ => {}
        }
    }
    let (Some(axes), Some(element), Some(offset)) = (axes, element, offset) else {
        return Err(Error::corrupt(format!("{name} has no type, space or place")));
    };
    let (Some(&n_rows), shape) = (axes.first(), axes.get(1..).unwrap_or_default()) else {
        return Err(Error::corrupt(format!("{name} has no axis")));
    };
    let product = shape.iter().try_fold(element.bytes() as u64, |product, &axis| product.checked_mul(axis));
    if product.is_none_or(|bytes| bytes == 0 || bytes > isize::MAX as u64) {
        return Err(Error::corrupt(format!("{name} has rows of shape {shape:?}")));
    }
    let shape = shape.iter().map(|&axis| axis as usize).collect();
    let offset = if offset == UNDEFINED { 0 } else { offset };
    Ok((Column { name, element, shape, len: Some(n_rows) }, offset))
}

fn dataspace(body: &[u8]) -> Result<Vec<u64>> {
    let missing = || Error::corrupt(format!("a dataspace has {} bytes; at least 2 were expected", body.len()));
    let rank = usize::from(*body.get(1).ok_or_else(missing)?);
    if rank > MAX_AXES {
        return Err(Error::corrupt(format!("a dataspace has {rank} axes; at most {MAX_AXES}")));
    }
    (0..rank).map(|axis| u64_at(body, 4 + 8 * axis)).collect()
}

fn datatype(body: &[u8]) -> Result<ColumnType> {
    let width = u32_at(body, 4)? as usize;
    let numbers = DType::STORED.into_iter().map(ColumnType::Number);
    let found = numbers.chain([ColumnType::Text(width)]).find(|&element| {
        let expected = message::datatype(element);
        body.get(..expected.len()) == Some(&expected[..])
    });
    found.filter(|element| element.bytes() > 0).ok_or_else(|| Error::unsupported("an element type that is not ours"))
}

fn attribute(body: &[u8]) -> Result<(String, Value)> {
    let [name_len, type_len, space_len] = [2, 4, 6].map(|at| u16_at(body, at).map(usize::from));
    let (name_len, type_len, space_len) = (name_len?, type_len?, space_len?);
    let part = |at: usize, len: usize| body.get(at..at + len).ok_or_else(|| Error::corrupt("an attribute is cut off"));
    let name = String::from_utf8_lossy(part(9, name_len.saturating_sub(1))?).into_owned();
    let element = datatype(part(9 + name_len, type_len)?)?;
    let data = part(9 + name_len + type_len + space_len, element.bytes())?;
    let value = match element {
        ColumnType::Text(_) => {
            let end = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            Value::from(String::from_utf8_lossy(&data[..end]).into_owned())
        }
        ColumnType::Number(DType::I64) => Value::from(u64_at(data, 0)? as i64),
        ColumnType::Number(DType::F64) => Value::from(f64::from_bits(u64_at(data, 0)?)),
        _ => return Err(Error::unsupported(format!("the attribute `{name}` of type {element:?}"))),
    };
    Ok((name, value))
}

fn bytes(file: &File, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)
        .map_err(|error| Error::truncated(format!("{len} bytes at byte {at}: {error}")))?;
    Ok(bytes)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let field = bytes.get(at..at + N).and_then(|field| field.try_into().ok());
    field.ok_or_else(|| Error::corrupt(format!("no field of {N} bytes at byte {at} of {}", bytes.len())))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}
