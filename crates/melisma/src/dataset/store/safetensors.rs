//! One safetensors file: attributes are its metadata, text columns are bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Column, EXPECTED, FilePlan, Layout, Place, Store, Type};
use crate::{Error, Result};

/// The longest header, as in the reference reader.
const MAX_HEADER: u64 = 100_000_000;

pub(super) fn lay_out(path: &Path, layout: &Layout) -> (Vec<FilePlan>, Vec<Place>) {
    // Wide elements come first, so that every column is aligned.
    let mut order: Vec<usize> = (0..layout.columns.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(alignment(layout.columns[index].element)));
    let mut starts = vec![0; layout.columns.len()];
    let mut at = 0;
    let mut entries = Vec::new();
    let metadata: Map<String, Value> = layout
        .attributes
        .iter()
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), Value::from(text))
        })
        .collect();
    for index in order {
        let column = &layout.columns[index];
        starts[index] = at;
        let end = at + layout.n_rows * column.row_bytes() as u64;
        let mut shape = vec![layout.n_rows];
        shape.extend(column.shape.iter().map(|&axis| axis as u64));
        if let Type::Text(width) = column.element {
            shape.push(width as u64);
        }
        let entry = json!({ "data_offsets": [at, end], "dtype": name(column.element), "shape": shape });
        entries.push((column.name.clone(), entry));
        at = end;
    }
    // Sorted here, so that the bytes do not depend on how maps are kept.
    entries.push(("__metadata__".to_owned(), Value::Object(metadata)));
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut text = Value::Object(entries.into_iter().collect::<Map<_, _>>()).to_string();
    text.extend(std::iter::repeat_n(' ', (8 + text.len()).next_multiple_of(64) - 8 - text.len()));
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    let base = bytes.len() as u64;
    let places = starts.into_iter().map(|start| Place { file: 0, offset: base + start }).collect();
    (vec![FilePlan { path: path.to_owned(), header: bytes, len: base + at }], places)
}

pub(super) fn open(path: &Path, file: File) -> Result<Store> {
    let failed = |error| Error::io("its header", error);
    let mut start = [0; 8];
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    let header_len = u64::from_le_bytes(start);
    let len = file.metadata().map_err(failed)?.len();
    if header_len > MAX_HEADER || header_len + 8 > len {
        return Err(Error::corrupt("neither HDF5 nor safetensors").with_hint(EXPECTED));
    }
    let mut text = vec![0; header_len as usize];
    file.read_exact_at(&mut text, 8).map_err(failed)?;
    let header: Map<String, Value> =
        serde_json::from_slice(&text).map_err(|error| Error::corrupt(format!("its header is no JSON: {error}")))?;
    let mut layout = Layout { n_rows: 0, columns: Vec::new(), attributes: Map::new() };
    let mut places = Vec::new();
    for (name, value) in header {
        if name == "__metadata__" {
            layout.attributes = attributes(&value);
            continue;
        }
        let (column, n_rows, offset) = column(name, &value)?;
        let end = (column.row_bytes() as u64).checked_mul(n_rows).and_then(|size| size.checked_add(offset));
        if end.is_none_or(|end| end > len - 8 - header_len) || (!places.is_empty() && n_rows != layout.n_rows) {
            return Err(Error::corrupt(format!("{} has other rows than the file", column.name)));
        }
        layout.n_rows = n_rows;
        layout.columns.push(column);
        places.push(Place { file: 0, offset: 8 + header_len + offset });
    }
    Ok(Store { layout, paths: vec![path.to_owned()], files: vec![file], places, maps: Vec::new() })
}

/// Metadata are text; what was a number becomes one again.
fn attributes(metadata: &Value) -> Map<String, Value> {
    const TEXTS: [&str; 4] = ["config", "format", "plan", "preset"];
    let typed = |(name, value): (&String, &Value)| {
        let number =
            value.as_str().filter(|_| !TEXTS.contains(&name.as_str())).and_then(|text| serde_json::from_str(text).ok());
        (name.clone(), number.filter(Value::is_number).unwrap_or_else(|| value.clone()))
    };
    metadata.as_object().into_iter().flatten().map(typed).collect()
}

fn column(name: String, value: &Value) -> Result<(Column, u64, u64)> {
    let numbers = |key: &str| -> Option<Vec<u64>> { value[key].as_array()?.iter().map(Value::as_u64).collect() };
    let wrong = || Error::corrupt(format!("{name} is not described as it should be"));
    let (mut shape, offsets) = (numbers("shape").ok_or_else(wrong)?, numbers("data_offsets").ok_or_else(wrong)?);
    let element = match value["dtype"].as_str() {
        Some("F16") => Type::F16,
        Some("F32") => Type::F32,
        Some("I64") => Type::I64,
        Some("I32") => Type::I32,
        Some("U64") => Type::U64,
        Some("U8") if shape.len() == 2 => Type::Text(shape.pop().unwrap_or(0) as usize),
        Some("U8") => Type::U8,
        _ => return Err(wrong()),
    };
    let (Some(&n_rows), Some(&offset)) = (shape.first(), offsets.first()) else { return Err(wrong()) };
    let bytes = shape[1..].iter().try_fold(element.bytes() as u64, |product, &axis| product.checked_mul(axis));
    if bytes.is_none_or(|bytes| bytes == 0 || bytes > isize::MAX as u64) {
        return Err(wrong());
    }
    let shape = shape[1..].iter().map(|&axis| axis as usize).collect();
    Ok((Column { name, element, shape }, n_rows, offset))
}

fn alignment(element: Type) -> usize {
    if matches!(element, Type::Text(_)) { 1 } else { element.bytes() }
}

fn name(element: Type) -> &'static str {
    match element {
        Type::F16 => "F16",
        Type::F32 => "F32",
        Type::F64 => "F64",
        Type::I64 => "I64",
        Type::I32 => "I32",
        Type::U64 => "U64",
        Type::U8 | Type::Text(_) => "U8",
    }
}
