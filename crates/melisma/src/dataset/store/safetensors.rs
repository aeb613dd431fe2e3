//! One safetensors file: attributes are its metadata, and text columns are bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Column, ColumnLocation, ColumnType, EXPECTED, FilePlan, Layout, Store};
use crate::format::safetensors::{self, Header, TensorEntry};
use crate::{DType, Error, Result};

pub(super) fn lay_out(path: &Path, layout: &Layout) -> (Vec<FilePlan>, Vec<ColumnLocation>) {
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
        let end = at + layout.len(column) * column.row_bytes() as u64;
        let mut shape = vec![layout.len(column)];
        shape.extend(column.shape.iter().map(|&axis| axis as u64));
        if let ColumnType::Text(width) = column.element {
            shape.push(width as u64);
        }
        let entry = json!({ "data_offsets": [at, end], "dtype": name(column.element), "shape": shape });
        entries.push((column.name.clone(), entry));
        at = end;
    }
    // Sorted here, so that the bytes do not depend on the map's order.
    entries.push(("__metadata__".to_owned(), Value::Object(metadata)));
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let json = Value::Object(entries.into_iter().collect::<Map<_, _>>()).to_string();
    let bytes = safetensors::header(json, 64);
    let base = bytes.len() as u64;
    let places = starts.into_iter().map(|start| ColumnLocation { file: 0, offset: base + start }).collect();
    (vec![FilePlan { path: path.to_owned(), header: bytes, len: base + at }], places)
}

pub(super) fn open(path: &Path, file: File) -> Result<Store> {
    let mut header = Header::read(&file).map_err(|error| {
        let message = format!("neither HDF5 nor a valid safetensors file: {error}");
        Error::new(error.kind(), message).with_source(error).with_hint(EXPECTED)
    })?;
    header.tensors.sort_by(|a, b| a.name.cmp(&b.name));
    let mut layout = Layout { n_rows: 0, columns: Vec::new(), attributes: attributes(header.metadata) };
    let mut places = Vec::new();
    for entry in header.tensors {
        let place = ColumnLocation { file: 0, offset: header.len + entry.bytes[0] };
        layout.columns.push(column(entry)?);
        places.push(place);
    }
    layout.settle()?;
    Ok(Store { layout, paths: vec![path.to_owned()], files: vec![file], places, maps: Vec::new() })
}

/// Parses numbers back from metadata, which are text.
fn attributes(metadata: BTreeMap<String, String>) -> Map<String, Value> {
    const TEXTS: [&str; 6] = ["config", "format", "melisma.kept", "melisma.model", "plan", "preset"];
    let typed = |(name, text): (String, String)| {
        let number = Some(&text).filter(|_| !TEXTS.contains(&&*name)).and_then(|text| serde_json::from_str(text).ok());
        let value = number.filter(Value::is_number).unwrap_or(Value::String(text));
        (name, value)
    };
    metadata.into_iter().map(typed).collect()
}

/// Returns the column of a tensor.
fn column(entry: TensorEntry) -> Result<Column> {
    let len = entry.len();
    let TensorEntry { name, dtype, mut shape, .. } = entry;
    let element = match DType::from_safetensors(&dtype) {
        Some(DType::U8) if shape.len() == 2 => ColumnType::Text(shape.pop().unwrap_or(0) as usize),
        Some(dtype) => ColumnType::Number(dtype),
        None => return Err(Error::corrupt(format!("{name}: elements of type {dtype}, which no dataset has"))),
    };
    let row = shape.iter().skip(1).try_fold(element.bytes() as u64, |product, &axis| product.checked_mul(axis));
    let (Some(&n_rows), Some(row)) = (shape.first(), row.filter(|&row| row > 0 && row <= isize::MAX as u64)) else {
        return Err(Error::corrupt(format!("{name}: a column cannot have the shape {shape:?}")));
    };
    if row.checked_mul(n_rows) != Some(len) {
        return Err(Error::corrupt(format!("{name}: {n_rows} rows of {row} bytes in {len} bytes")));
    }
    let shape = shape[1..].iter().map(|&axis| axis as usize).collect();
    Ok(Column { name, element, shape, len: Some(n_rows) })
}

fn alignment(element: ColumnType) -> usize {
    if matches!(element, ColumnType::Text(_)) { 1 } else { element.bytes() }
}

fn name(element: ColumnType) -> &'static str {
    match element {
        ColumnType::Number(dtype) => dtype.safetensors_name(),
        ColumnType::Text(_) => DType::U8.safetensors_name(),
    }
}
