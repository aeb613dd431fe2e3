//! Object header messages: links, datatypes, dataspaces, layouts and attributes.

use serde_json::{Map, Value};

use super::UNDEFINED;
use crate::DType;
use crate::dataset::store::{Column, ColumnType, Layout};

pub(super) const DATASPACE: u8 = 0x01;
pub(super) const LINK_INFO: u8 = 0x02;
pub(super) const DATATYPE: u8 = 0x03;
pub(super) const FILL_VALUE: u8 = 0x05;
pub(super) const LINK: u8 = 0x06;
pub(super) const LAYOUT: u8 = 0x08;
pub(super) const GROUP_INFO: u8 = 0x0a;
pub(super) const ATTRIBUTE: u8 = 0x0c;

/// Returns the root group: links to the columns, then attributes.
pub(super) fn root(layout: &Layout, objects: &[u64]) -> Vec<u8> {
    let mut messages = Vec::new();
    let mut info = vec![0, 0];
    info.extend([UNDEFINED.to_le_bytes(), UNDEFINED.to_le_bytes()].concat());
    push(&mut messages, LINK_INFO, &info);
    push(&mut messages, GROUP_INFO, &[0, 0]);
    for (column, object) in layout.columns.iter().zip(objects) {
        // Version 1: a hard link, with one byte for the length of the name.
        let mut link = vec![1, 0, column.name.len() as u8];
        link.extend(column.name.as_bytes());
        link.extend(object.to_le_bytes());
        push(&mut messages, LINK, &link);
    }
    attributes(&mut messages, &layout.attributes);
    messages
}

/// Returns a contiguous dataset at `address`.
pub(super) fn dataset(column: &Column, n_rows: u64, address: u64) -> Vec<u8> {
    let mut messages = Vec::new();
    let axes: Vec<u64> = std::iter::once(n_rows).chain(column.shape.iter().map(|&axis| axis as u64)).collect();
    push(&mut messages, DATASPACE, &dataspace(&axes));
    push(&mut messages, DATATYPE, &datatype(column.element));
    // Version 3: space is allocated early, and the fill value is written only if one is set.
    push(&mut messages, FILL_VALUE, &[3, 0b1001]);
    let mut layout = vec![3, 1];
    layout.extend(address.to_le_bytes());
    layout.extend((n_rows * column.row_bytes() as u64).to_le_bytes());
    push(&mut messages, LAYOUT, &layout);
    messages
}

fn attributes(messages: &mut Vec<u8>, attributes: &Map<String, Value>) {
    for (name, value) in attributes {
        let (element, data) = match value {
            Value::String(text) => (ColumnType::Text(text.len().max(1)), text.as_bytes().to_vec()),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => (DType::I64.into(), integer.to_le_bytes().to_vec()),
                None => (DType::F64.into(), number.as_f64().unwrap_or(f64::NAN).to_le_bytes().to_vec()),
            },
            _ => continue,
        };
        let (kind, space) = (datatype(element), [2, 0, 0, 0]);
        // Version 3, no flags, sizes of name, type and space, name in UTF-8.
        let mut body = vec![3, 0];
        body.extend((name.len() as u16 + 1).to_le_bytes());
        body.extend((kind.len() as u16).to_le_bytes());
        body.extend((space.len() as u16).to_le_bytes());
        body.push(1);
        body.extend(name.as_bytes());
        body.push(0);
        body.extend(kind);
        body.extend(space);
        body.extend(&data);
        body.resize(body.len() + element.bytes() - data.len(), 0);
        push(messages, ATTRIBUTE, &body);
    }
}

fn push(messages: &mut Vec<u8>, kind: u8, body: &[u8]) {
    messages.push(kind);
    messages.extend((body.len() as u16).to_le_bytes());
    messages.push(0);
    messages.extend(body);
}

/// Returns a dataspace of version 2: simple, of fixed size.
fn dataspace(axes: &[u64]) -> Vec<u8> {
    let mut body = vec![2, axes.len() as u8, 0, 1];
    axes.iter().for_each(|axis| body.extend(axis.to_le_bytes()));
    body
}

/// Returns version and class, three bytes of flags, the size, then the properties of the class.
pub(super) fn datatype(element: ColumnType) -> Vec<u8> {
    let float = |sign: u8, exponent: [u8; 2], mantissa: u8, bias: u32, size: u32| {
        // Little-endian; the first bit of the mantissa is implied.
        let mut body = vec![0x11, 0x20, sign, 0];
        body.extend(size.to_le_bytes());
        body.extend([0, 0, sign + 1, 0, exponent[0], exponent[1], 0, mantissa]);
        body.extend(bias.to_le_bytes());
        body
    };
    let integer = |signed: u8, size: u32| {
        let mut body = vec![0x10, signed << 3, 0, 0];
        body.extend(size.to_le_bytes());
        body.extend([0, 0]);
        body.extend((8 * size as u16).to_le_bytes());
        body
    };
    let dtype = match element {
        ColumnType::Number(dtype) => dtype,
        ColumnType::Text(width) => {
            // Zero-padded UTF-8.
            let mut body = vec![0x13, 0x11, 0, 0];
            body.extend((width as u32).to_le_bytes());
            return body;
        }
    };
    match dtype {
        DType::F16 => float(15, [10, 5], 10, 15, 2),
        DType::BF16 => float(15, [7, 8], 7, 127, 2),
        DType::F32 => float(31, [23, 8], 23, 127, 4),
        DType::F64 => float(63, [52, 11], 52, 1023, 8),
        DType::I8 | DType::I16 | DType::I24 | DType::I32 | DType::I64 => integer(1, dtype.size() as u32),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => integer(0, dtype.size() as u32),
    }
}
