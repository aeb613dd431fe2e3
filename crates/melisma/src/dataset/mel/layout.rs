//! The columns and attributes of spectrograms.

use serde_json::Value;

use crate::dataset::plan::{Options, Plan};
use crate::dataset::row::Status;
use crate::dataset::store::identity::Identity;
use crate::dataset::store::{Column, ColumnType, HASH_COLUMN, Store};
use crate::mel::OutputPrecision;
use crate::{DType, Result};

/// Version 2 adds `row_hash`, and `shard` in shards.
const VERSION: i64 = 2;

pub(in crate::dataset) fn describe(options: &Options, plan: &Plan) -> (Vec<Column>, Vec<(&'static str, Value)>) {
    let config = &options.mel;
    let n_frames = options.n_frames();
    let width = plan.files.iter().map(|file| plan.input(file).name().len()).max().unwrap_or(1).max(1);
    let shape = match config.order() {
        melisma_kernels::signal::mel::Order::FilterTime => vec![config.n_mels, n_frames],
        melisma_kernels::signal::mel::Order::TimeFilter => vec![n_frames, config.n_mels],
    };
    let element = if config.dtype == OutputPrecision::F16 { DType::F16 } else { DType::F32 };
    let columns = vec![
        Column::flat("path", ColumnType::Text(width)),
        Column::flat("file_index", DType::I64),
        Column::flat("start_sample", DType::I64),
        Column::flat("valid_frames", DType::I32),
        Column::flat("status", DType::U8),
        Column::flat("checksum", DType::U64),
        Column::flat(HASH_COLUMN, DType::U64),
        Column { shape, ..Column::flat("mel", element) },
    ];
    let json = serde_json::to_string(options).unwrap_or_default();
    let mut identity = Identity::new(&json);
    for row in &plan.rows {
        let file = plan.file(row);
        let numbers = [u64::from(file.index), row.start, u64::from(row.valid_frames)];
        identity.add(plan.input(file).name().as_bytes(), &numbers);
    }
    let attributes = vec![
        ("config", Value::from(json)),
        ("format", Value::from("melisma-dataset")),
        ("hop_length", Value::from(config.hop_length)),
        ("multiplier", Value::from(config.multiplier)),
        ("plan", Value::from(identity.finish())),
        ("preset", Value::from(config.preset.clone())),
        ("sample_rate", Value::from(config.sample_rate)),
        ("segment_hop_samples", Value::from(options.segment_hop_samples)),
        ("segment_samples", Value::from(options.segment_samples)),
        ("version", Value::from(VERSION)),
    ];
    (columns, attributes)
}

pub(in crate::dataset) fn write_columns(store: &Store, plan: &Plan) -> Result<()> {
    const ROWS: usize = 4096;
    let width = store.layout.columns[0].row_bytes();
    for (index, rows) in plan.rows.chunks(ROWS).enumerate() {
        let first = (index * ROWS) as u64;
        let mut names = vec![0; rows.len() * width];
        for (row, to) in rows.iter().zip(names.chunks_mut(width)) {
            let name = plan.input_of(row).name();
            let name = name.as_bytes();
            to[..name.len()].copy_from_slice(name);
        }
        store.write(0, first, &names)?;
        let files: Vec<u8> = rows.iter().flat_map(|row| i64::from(plan.file(row).index).to_le_bytes()).collect();
        store.write(1, first, &files)?;
        let starts: Vec<u8> = rows.iter().flat_map(|row| row.start.to_le_bytes()).collect();
        store.write(2, first, &starts)?;
        let valid: Vec<u8> = rows.iter().flat_map(|row| row.valid_frames.to_le_bytes()).collect();
        store.write(3, first, &valid)?;
        store.write(4, first, &vec![Status::Pending as u8; rows.len()])?;
    }
    Ok(())
}
