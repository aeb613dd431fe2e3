//! Makes a dataset of rows that lie in the order in which they came.

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::spool::{Span, Spool};
use super::{Gather, REQUEST, Source};
use crate::Result;
use crate::dataset::row::Status;
use crate::dataset::store::hash::Table;
use crate::dataset::store::identity::Identity;
use crate::dataset::store::paths::Paths;
use crate::dataset::store::{HASH_COLUMN, INPUTS, Layout, Store, guard, offsets_of};
use crate::dataset::tokens::layout::{Ragged, Sizes, attributes, columns, kept_attribute, kept_columns};

/// Frames that are copied at once.
const FRAMES: u32 = 4096;

/// Writes all rows that have not failed to the dataset `paths.partial`.
pub(super) fn assemble(gather: &Gather, spool: &Spool, paths: &Paths) -> Result<Store> {
    let rows: Vec<(&Source, Span)> =
        gather.rows.iter().enumerate().filter_map(|(row, source)| Some((source, spool.span(row)?))).collect();
    guard::remove(&paths.partial)?;
    let store = Store::create(&paths.partial, gather.store, layout(gather, &rows))?;
    paths.conceal()?;
    write_columns(gather, &store, &rows)?;
    let (codes, n_slots) = (store.layout.column("codes")?, gather.model.config().n_slots());
    let mut to = 0;
    for (_, Span { first, tokens }) in &rows {
        for at in (0..tokens.frames).step_by(FRAMES as usize) {
            let mut bytes = vec![0; FRAMES.min(tokens.frames - at) as usize * n_slots * 2];
            spool.read(first + u64::from(at), &mut bytes)?;
            store.write(codes, to + u64::from(at), &bytes)?;
        }
        to += u64::from(tokens.frames);
    }
    let hashes = store.layout.column(HASH_COLUMN)?;
    Table::new(&store)?
        .each(0..store.layout.n_rows, |found| store.write(hashes, found.row, &found.entry.hash().to_le_bytes()))?;
    store.sync()?;
    Ok(store)
}

fn seconds(gather: &Gather, span: &Span) -> f64 {
    let config = gather.model.config();
    f64::from(span.tokens.frames) * config.frame_len() as f64 / f64::from(config.sampling_rate)
}

fn layout(gather: &Gather, rows: &[(&Source, Span)]) -> Layout {
    let config = gather.model.config();
    let mut settings = gather.settings.clone();
    settings.extend([
        ("codebook_size".to_owned(), json!(config.codebook_size)),
        ("frame_samples".to_owned(), json!(config.frame_len())),
        ("model".to_owned(), json!(gather.model.hash())),
        ("sample_rate".to_owned(), json!(config.sampling_rate)),
        ("vq_strides".to_owned(), json!(config.vq_strides)),
    ]);
    let kept: Vec<&str> = gather.kept.iter().map(String::as_str).collect();
    if !kept.is_empty() {
        settings.insert("kept".to_owned(), json!(kept));
    }
    let settings = Value::Object(settings).to_string();
    let mut identity = Identity::new(&settings);
    for (source, span) in rows {
        let numbers = [
            u64::from(source.index),
            seconds(gather, span).to_bits(),
            span.tokens.frames.into(),
            xxh3_64(source.text.as_bytes()),
        ];
        let kept = source.kept.iter().map(|kept| xxh3_64(kept.as_bytes()));
        let numbers: Vec<u64> = numbers.into_iter().chain(kept).collect();
        identity.add(source.name.as_bytes(), &numbers);
    }
    let sizes = Sizes {
        n_rows: rows.len() as u64,
        n_frames: rows.iter().map(|(_, span)| u64::from(span.tokens.frames)).sum(),
        path_bytes: rows.iter().map(|(source, _)| source.name.len() as u64).sum(),
        text_bytes: rows.iter().map(|(source, _)| source.text.len() as u64).sum(),
    };
    let mut all = attributes(&gather.model, settings, identity.finish());
    all.extend(kept_attribute(&kept));
    all.push((REQUEST, Value::from(gather.request.clone())));
    if let Some(shard) = gather.shard() {
        all.extend([("shard", Value::from(shard)), (INPUTS, Value::from(gather.request.clone()))]);
    }
    all.sort_by_key(|(name, _)| *name);
    let attributes: Map<String, Value> = all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut columns = columns(config.n_slots(), sizes);
    let bytes =
        |at: usize| rows.iter().filter_map(|(source, _)| source.kept.get(at)).map(|kept| kept.len() as u64).sum();
    columns.extend(kept_columns(kept.iter().enumerate().map(|(at, name)| (*name, bytes(at))), sizes.n_rows));
    Layout { n_rows: sizes.n_rows, columns, attributes }
}

fn write_columns(gather: &Gather, store: &Store, rows: &[(&Source, Span)]) -> Result<()> {
    let write = |name: &str, first: u64, bytes: Vec<u8>| store.write(store.layout.column(name)?, first, &bytes);
    let mut end = 0;
    let ends = rows.iter().map(|(_, span)| {
        end += u64::from(span.tokens.frames);
        end
    });
    write("offsets", 0, [0].into_iter().chain(ends).flat_map(u64::to_le_bytes).collect())?;
    write("seconds", 0, rows.iter().flat_map(|(_, span)| seconds(gather, span).to_le_bytes()).collect())?;
    write("status", 0, vec![Status::Ok as u8; rows.len()])?;
    write("file_index", 0, rows.iter().flat_map(|(source, _)| i64::from(source.index).to_le_bytes()).collect())?;
    write("checksum", 0, rows.iter().flat_map(|(_, span)| span.tokens.checksum.to_le_bytes()).collect())?;
    Ragged::new(store, "path", "path_offsets")?.write(rows.iter().map(|(source, _)| &source.name))?;
    Ragged::new(store, "text", "text_offsets")?.write(rows.iter().map(|(source, _)| &source.text))?;
    for (at, name) in gather.kept.iter().enumerate() {
        let cells = rows.iter().map(|(source, _)| source.kept.get(at).map_or("", String::as_str));
        Ragged::new(store, name, &offsets_of(name))?.write(cells)?;
    }
    Ok(())
}
