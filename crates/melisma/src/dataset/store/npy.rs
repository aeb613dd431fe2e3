//! A folder with one npy file per column, and `dataset.json` with the attributes and the column
//! types.

use std::fs::File;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Column, ColumnLocation, ColumnType, FilePlan, Layout, Store};
use crate::format::npy;
use crate::{DType, Error, Result};

/// The file that marks a folder as a dataset.
pub(in crate::dataset) const INDEX: &str = "dataset.json";
const MAX_INDEX: u64 = 16 << 20;

pub(super) fn lay_out(path: &Path, layout: &Layout) -> (Vec<FilePlan>, Vec<ColumnLocation>) {
    let mut plans = Vec::new();
    let mut places = Vec::new();
    for column in &layout.columns {
        let n = layout.len(column);
        let mut shape = vec![n as usize];
        shape.extend(&column.shape);
        let header = npy::header(&descr(column.element), &shape);
        places.push(ColumnLocation { file: plans.len(), offset: header.len() as u64 });
        let len = header.len() as u64 + n * column.row_bytes() as u64;
        plans.push(FilePlan { path: path.join(format!("{}.npy", column.name)), header, len });
    }
    // Sorted here, so that the bytes do not depend on the map's order.
    let mut columns: Vec<&Column> = layout.columns.iter().collect();
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    let described = |column: &&Column| {
        let mut described = json!({ "descr": descr(column.element), "shape": column.shape });
        let len = layout.len(column);
        if len != layout.n_rows {
            described["entries"] = len.into();
        }
        described
    };
    let columns: Map<String, Value> = columns.iter().map(|column| (column.name.clone(), described(column))).collect();
    let index = json!({ "attributes": layout.attributes, "columns": columns, "rows": layout.n_rows });
    let header = format!("{index:#}\n").into_bytes();
    let len = header.len() as u64;
    plans.push(FilePlan { path: path.join(INDEX), header, len });
    (plans, places)
}

/// Reads the index of the folder at `path`.
pub(in crate::dataset) fn layout(path: &Path) -> Result<Layout> {
    let at = path.join(INDEX);
    let failed = |error| Error::io(INDEX, error).with_hint("a dataset of npy files has one");
    if std::fs::metadata(&at).map_err(failed)?.len() > MAX_INDEX {
        return Err(Error::corrupt(format!("{INDEX} is larger than {MAX_INDEX} bytes")));
    }
    let index: Value = serde_json::from_slice(&std::fs::read(&at).map_err(failed)?)
        .map_err(|error| Error::corrupt(format!("{INDEX}: {error}")))?;
    let wrong = || Error::corrupt(format!("{INDEX} is not what it should be"));
    let n_rows = index["rows"].as_u64().ok_or_else(wrong)?;
    let attributes = index["attributes"].as_object().cloned().unwrap_or_default();
    let mut columns = Vec::new();
    for (name, value) in index["columns"].as_object().ok_or_else(wrong)? {
        let shape: Option<Vec<usize>> = value["shape"]
            .as_array()
            .and_then(|axes| axes.iter().map(|axis| axis.as_u64().map(|axis| axis as usize)).collect());
        let element = value["descr"].as_str().and_then(element).ok_or_else(wrong)?;
        let shape = shape.ok_or_else(wrong)?;
        let len = value.get("entries").map_or(Some(n_rows), Value::as_u64).ok_or_else(wrong)?;
        let bytes = shape.iter().try_fold(element.bytes(), |product, &axis| product.checked_mul(axis));
        if bytes.and_then(|bytes| bytes.checked_mul(len as usize)).is_none() || name.contains('/') {
            return Err(wrong());
        }
        columns.push(Column { name: name.clone(), element, shape, len: Some(len) });
    }
    let mut layout = Layout { n_rows, columns, attributes };
    layout.settle()?;
    Ok(layout)
}

pub(super) fn open(path: &Path) -> Result<Store> {
    let layout = layout(path)?;
    let (plans, places) = lay_out(path, &layout);
    let mut files = Vec::new();
    for plan in &plans[..layout.columns.len()] {
        let failed = |error| Error::io(plan.path.display(), error);
        let file = File::open(&plan.path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() != plan.len {
            return Err(Error::corrupt(format!("{}: not {} bytes", plan.path.display(), plan.len)));
        }
        files.push(file);
    }
    let paths = plans[..layout.columns.len()].iter().map(|plan| plan.path.clone()).collect();
    Ok(Store { layout, paths, files, places, maps: Vec::new() })
}

fn descr(element: ColumnType) -> String {
    match element {
        ColumnType::Number(dtype) => npy::descr(dtype).to_owned(),
        ColumnType::Text(width) => format!("|S{width}"),
    }
}

fn element(descr: &str) -> Option<ColumnType> {
    if let Some(width) = descr.strip_prefix("|S") {
        return width.parse().ok().filter(|&width| width > 0).map(ColumnType::Text);
    }
    DType::STORED.into_iter().find(|&dtype| npy::descr(dtype) == descr).map(ColumnType::Number)
}
