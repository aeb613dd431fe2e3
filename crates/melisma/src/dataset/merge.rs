//! Shards to one dataset, the same bytes as if it had been built at once.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::complete::Paths;
use super::identity::Identity;
use super::store::{Kind, Layout, Store, Type};
use crate::runtime::output::Existing;
use crate::{Error, Result};

/// The columns, in the order in which a build writes them.
const COLUMNS: [&str; 7] = ["path", "file_index", "start_sample", "valid_frames", "status", "checksum", "mel"];
/// Bytes that are copied at a time.
const BLOCK: usize = 4 << 20;

/// Joins the datasets at `shards` into one of `kind` at `output`, in the order of their files; returns its rows.
///
/// # Errors
/// The shards were made with different settings or overlap, one is damaged, or the output exists or cannot be written.
pub fn merge(shards: &[PathBuf], output: &Path, kind: Kind, existing: Existing) -> Result<u64> {
    let paths = Paths::new(output)?;
    if output.exists() && existing == Existing::Refuse {
        return Err(Error::invalid(format!("{}: the file exists already", output.display()))
            .with_hint("use -f to replace it, or choose another name"));
    }
    let mut parts = Vec::new();
    for path in shards {
        let store = Store::open(path)?;
        parts.push((bounds(&store).map_err(|error| error.at(path.display()))?, path, store));
    }
    parts.sort_by_key(|part| part.0);
    for pair in parts.windows(2) {
        if pair[0].0.1 >= pair[1].0.0 {
            let message = format!("{} and {} hold the same files", pair[0].1.display(), pair[1].1.display());
            return Err(Error::invalid(message).with_hint("name each shard once"));
        }
    }
    let layout = layout(&parts)?;
    paths.clear()?;
    let store = Store::create(&paths.partial, kind, layout)?;
    let mut first = 0;
    for (_, _, part) in &parts {
        copy(part, &store, first)?;
        first += part.layout.n_rows;
    }
    store.sync()?;
    let mut failures = Vec::new();
    for (_, path, _) in &parts {
        failures.extend(Paths::new(path)?.read_failures());
    }
    paths.write_failures(&failures)?;
    paths.publish()?;
    Ok(first)
}

type Part<'a> = ((i64, i64), &'a PathBuf, Store);

/// The first and the last file of a shard; an empty one lies after all others.
fn bounds(store: &Store) -> Result<(i64, i64)> {
    let n_rows = store.layout.n_rows;
    let column = store.layout.column("file_index")?;
    if n_rows == 0 {
        return Ok((i64::MAX, i64::MAX));
    }
    let at = |row: u64| -> Result<i64> {
        let mut bytes = [0; 8];
        store.read(column, row, &mut bytes)?;
        Ok(i64::from_le_bytes(bytes))
    };
    Ok((at(0)?, at(n_rows - 1)?))
}

/// The layout of the whole: text columns as wide as the widest, and the identity of all rows.
fn layout(parts: &[Part<'_>]) -> Result<Layout> {
    let Some((_, _, first)) = parts.first() else {
        return Err(Error::invalid("no shards were named"));
    };
    let mut layout = first.layout.clone();
    layout.n_rows = 0;
    // Safetensors gives columns in the order of their names.
    layout.columns.sort_by_key(|column| COLUMNS.iter().position(|name| *name == column.name));
    let config = layout.text("config").unwrap_or_default().to_owned();
    let mut identity = Identity::new(&config);
    for (_, path, part) in parts {
        if part.layout.text("config") != Some(&config) || part.layout.columns.len() != layout.columns.len() {
            return Err(Error::invalid(format!("{}: it was built with other settings", path.display()))
                .with_hint("shards must have the same preset, segments and element type"));
        }
        for column in &mut layout.columns {
            let theirs = &part.layout.columns[part.layout.column(&column.name)?];
            match (&mut column.element, theirs.element) {
                (Type::Text(width), Type::Text(other)) => *width = (*width).max(other),
                (ours, theirs) if *ours == theirs => {}
                _ => return Err(Error::invalid(format!("{}: `{}` is of another type", path.display(), column.name))),
            }
            if column.shape != theirs.shape {
                return Err(Error::invalid(format!("{}: `{}` has another shape", path.display(), column.name)));
            }
        }
        layout.n_rows += part.layout.n_rows;
        add_rows(part, &mut identity)?;
    }
    layout.attributes.insert("plan".to_owned(), Value::from(identity.finish()));
    Ok(layout)
}

fn add_rows(part: &Store, identity: &mut Identity) -> Result<()> {
    let columns = ["path", "file_index", "start_sample", "valid_frames"].map(|name| part.layout.column(name));
    let [name, file, start, valid] = columns;
    let (name, file, start, valid) = (name?, file?, start?, valid?);
    let mut text = vec![0; part.layout.columns[name].row_bytes()];
    for row in 0..part.layout.n_rows {
        let (mut index, mut first, mut frames) = ([0; 8], [0; 8], [0; 4]);
        part.read(name, row, &mut text)?;
        part.read(file, row, &mut index)?;
        part.read(start, row, &mut first)?;
        part.read(valid, row, &mut frames)?;
        let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let numbers = [u64::from_le_bytes(index), u64::from_le_bytes(first), u64::from(u32::from_le_bytes(frames))];
        identity.add(&text[..end], numbers);
    }
    Ok(())
}

fn copy(from: &Store, to: &Store, first: u64) -> Result<()> {
    for (column, theirs) in from.layout.columns.iter().enumerate() {
        let ours = to.layout.column(&theirs.name)?;
        let (width, wide) = (theirs.row_bytes(), to.layout.columns[ours].row_bytes());
        let per_block = (BLOCK / wide.max(1)).max(1) as u64;
        let mut row = 0;
        while row < from.layout.n_rows {
            let n = per_block.min(from.layout.n_rows - row);
            let mut bytes = vec![0; n as usize * width];
            from.read(column, row, &mut bytes)?;
            if width != wide {
                let padded =
                    |text: &[u8]| text.iter().copied().chain(std::iter::repeat(0)).take(wide).collect::<Vec<_>>();
                bytes = bytes.chunks(width).flat_map(padded).collect();
            }
            to.write(ours, first + row, &bytes)?;
            row += n;
        }
    }
    Ok(())
}
