//! The columns and attributes of tokens.

use serde_json::Value;

use crate::dataset::plan::{Check, Plan, Tokens};
use crate::dataset::row::{Row, Status};
use crate::dataset::store::hash::MEASURED;
use crate::dataset::store::identity::Identity;
use crate::dataset::store::{Column, HASH_COLUMN, KEPT_COLUMNS, KIND, Store, TOKENS, offsets_of};
use crate::snac::Model;
use crate::{DType, Result};

const VERSION: i64 = 2;
/// Rows whose columns are written at once.
const ROWS: usize = 1024;

/// The sizes of a corpus.
#[derive(Debug, Clone, Copy)]
pub(in crate::dataset) struct Sizes {
    pub(in crate::dataset) n_rows: u64,
    pub(in crate::dataset) n_frames: u64,
    pub(in crate::dataset) path_bytes: u64,
    pub(in crate::dataset) text_bytes: u64,
}

/// Returns the columns that every corpus has.
pub(in crate::dataset) fn columns(n_slots: usize, sizes: Sizes) -> Vec<Column> {
    let n_offsets = sizes.n_rows + 1;
    vec![
        Column { shape: vec![n_slots], ..Column::ragged("codes", DType::U16, sizes.n_frames) },
        Column::ragged("offsets", DType::U64, n_offsets),
        Column::flat("seconds", DType::F64),
        Column::flat("status", DType::U8),
        Column::ragged("path", DType::U8, sizes.path_bytes),
        Column::ragged("path_offsets", DType::U64, n_offsets),
        Column::ragged("text", DType::U8, sizes.text_bytes),
        Column::ragged("text_offsets", DType::U64, n_offsets),
        Column::flat("file_index", DType::I64),
        Column::flat("checksum", DType::U64),
        Column::flat(HASH_COLUMN, DType::U64),
    ]
}

/// Returns the columns that come from a table, with the bytes of each.
pub(in crate::dataset) fn kept_columns<'a>(
    kept: impl IntoIterator<Item = (&'a str, u64)>,
    n_rows: u64,
) -> impl Iterator<Item = Column> {
    kept.into_iter().flat_map(move |(name, bytes)| {
        [Column::ragged(name, DType::U8, bytes), Column::ragged(&offsets_of(name), DType::U64, n_rows + 1)]
    })
}

/// Returns the attribute that names the columns that come from a table, if there are any.
pub(in crate::dataset) fn kept_attribute(kept: &[&str]) -> Option<(&'static str, Value)> {
    (!kept.is_empty()).then(|| (KEPT_COLUMNS, Value::from(kept.join(","))))
}

/// Returns the attributes that every corpus has, for settings as text and the hash of the plan.
pub(in crate::dataset) fn attributes(model: &Model, settings: String, plan: String) -> Vec<(&'static str, Value)> {
    let config = model.config();
    let strides: Vec<String> = config.vq_strides.iter().map(usize::to_string).collect();
    vec![
        ("config", Value::from(settings)),
        ("format", Value::from("melisma-dataset")),
        (KIND, Value::from(TOKENS)),
        ("melisma.levels", Value::from(config.vq_strides.len())),
        ("melisma.model", Value::from(model.hash())),
        ("melisma.strides", Value::from(strides.join(" "))),
        ("plan", Value::from(plan)),
        ("sample_rate", Value::from(config.sampling_rate)),
        ("version", Value::from(VERSION)),
    ]
}

pub(in crate::dataset) fn describe(tokens: &Tokens, plan: &Plan) -> (Vec<Column>, Vec<(&'static str, Value)>) {
    let path_bytes = plan.files.iter().map(|file| plan.input(file).name().len() as u64).sum();
    let kept = tokens.texts.kept();
    let bytes =
        |column: usize| plan.texts.iter().skip(column).step_by(1 + kept.len()).map(|text| u64::from(text.len)).sum();
    let n_rows = plan.rows.len() as u64;
    let sizes = Sizes { n_rows, n_frames: plan.n_frames(), path_bytes, text_bytes: bytes(0) };
    let mut columns = columns(tokens.n_slots(), sizes);
    if tokens.check != Check::None {
        columns.extend(MEASURED.map(|name| Column::flat(name, DType::F32)));
    }
    columns.extend(kept_columns(kept.iter().zip(1..).map(|(name, column)| (*name, bytes(column))), n_rows));
    let json = tokens.config();
    let mut identity = Identity::new(&json);
    for (row, texts) in plan.rows.iter().zip(plan.texts.chunks(1 + kept.len())) {
        let file = plan.file(row);
        let numbers = [u64::from(file.index), seconds(tokens, row).to_bits(), row.valid_frames.into()];
        let numbers: Vec<u64> = numbers.into_iter().chain(texts.iter().map(|text| text.hash)).collect();
        identity.add(plan.input(file).name().as_bytes(), &numbers);
    }
    let mut attributes = attributes(&tokens.model, json, identity.finish());
    attributes.extend(kept_attribute(&kept));
    (columns, attributes)
}

fn seconds(tokens: &Tokens, row: &Row) -> f64 {
    row.n_samples as f64 / f64::from(tokens.model.config().sampling_rate)
}

/// Bytes of a ragged column and where its rows begin, written as they come.
pub(in crate::dataset) struct Ragged<'a> {
    store: &'a Store,
    values: usize,
    offsets: usize,
    at: u64,
    row: u64,
}

impl<'a> Ragged<'a> {
    pub(in crate::dataset) fn new(store: &'a Store, values: &str, offsets: &str) -> Result<Self> {
        let (values, offsets) = (store.layout.column(values)?, store.layout.column(offsets)?);
        let ragged = Self { store, values, offsets, at: 0, row: 0 };
        store.write(offsets, 0, &0u64.to_le_bytes())?;
        Ok(ragged)
    }

    pub(in crate::dataset) fn write(&mut self, rows: impl Iterator<Item = impl AsRef<str>>) -> Result<()> {
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        for row in rows {
            bytes.extend_from_slice(row.as_ref().as_bytes());
            offsets.extend((self.at + bytes.len() as u64).to_le_bytes());
        }
        self.store.write(self.values, self.at, &bytes)?;
        self.store.write(self.offsets, self.row + 1, &offsets)?;
        self.at += bytes.len() as u64;
        self.row += offsets.len() as u64 / 8;
        Ok(())
    }
}

pub(in crate::dataset) fn write_columns(tokens: &Tokens, store: &Store, plan: &Plan) -> Result<()> {
    let column = |name: &str| store.layout.column(name);
    let (offsets, length, status, index) =
        (column("offsets")?, column("seconds")?, column("status")?, column("file_index")?);
    let mut paths = Ragged::new(store, "path", "path_offsets")?;
    let kept = tokens.texts.kept();
    let names = std::iter::once("text").chain(kept.iter().copied());
    let mut texts = names.map(|name| Ragged::new(store, name, &offsets_of(name))).collect::<Result<Vec<_>>>()?;
    store.write(offsets, 0, &0u64.to_le_bytes())?;
    for (block, rows) in plan.rows.chunks(ROWS).enumerate() {
        let first = (block * ROWS) as u64;
        let ends: Vec<u8> = rows.iter().flat_map(|row| row.next_frame().to_le_bytes()).collect();
        store.write(offsets, first + 1, &ends)?;
        let seconds: Vec<u8> = rows.iter().flat_map(|row| seconds(tokens, row).to_le_bytes()).collect();
        store.write(length, first, &seconds)?;
        store.write(status, first, &vec![Status::Pending as u8; rows.len()])?;
        let files: Vec<u8> = rows.iter().flat_map(|row| i64::from(plan.file(row).index).to_le_bytes()).collect();
        store.write(index, first, &files)?;
        paths.write(rows.iter().map(|row| plan.input_of(row).name()))?;
        let found = plan.texts[block * ROWS * texts.len()..].chunks(texts.len());
        for (row, found) in rows.iter().zip(found) {
            let cells = tokens.texts.read(plan.input_of(row), found)?;
            texts.iter_mut().zip(cells).try_for_each(|(column, cell)| column.write(std::iter::once(cell)))?;
        }
    }
    Ok(())
}
