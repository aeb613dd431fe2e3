//! The columns of a merged dataset, and the way of the shards' rows into them.

use serde_json::Value;

use super::shard::Part;
use crate::dataset::counters::Counters;
use crate::dataset::store::hash::{Found, Table};
use crate::dataset::store::identity::Identity;
use crate::dataset::store::{COLUMNS, Column, ColumnType, Extent, Layout, Store, TOKEN_COLUMNS};
use crate::runtime::memory::{Budget, Space};
use crate::{Error, Remedy, Result};

/// Bytes that are copied at once.
const BLOCK: usize = 4 << 20;

/// Returns the layout of the merged dataset: text columns as wide as the widest, and the identity
/// of all rows.
pub(super) fn layout(parts: &[Part<'_>], counters: &Counters) -> Result<Layout> {
    let Some((_, _, first)) = parts.first() else {
        return Err(Error::invalid("no shards were named"));
    };
    let mut layout = first.layout.clone();
    layout.n_rows = 0;
    // Safetensors lists columns by name.
    let own = if layout.is_tokens() { &TOKEN_COLUMNS[..] } else { &COLUMNS[..] };
    let kept = layout.ragged().into_iter().flat_map(|(values, offsets)| [values, offsets]);
    let order: Vec<String> = own.iter().map(|&name| name.to_owned()).chain(kept).collect();
    layout.columns.sort_by_key(|column| order.iter().position(|name| *name == column.name));
    for column in &mut layout.columns {
        column.len = match first.layout.extent(&column.name) {
            Extent::Rows => column.len,
            extent => Some(u64::from(extent == Extent::Offsets)),
        };
    }
    let config = layout.text("config").unwrap_or_default().to_owned();
    let mut identity = Identity::new(&config);
    for (_, path, part) in parts {
        if part.layout.attributes.get("version") != layout.attributes.get("version") {
            return Err(Error::invalid(format!(
                "{}: its format has another version than the first shard's",
                path.display()
            ))
            .with_hint("build the older shards again"));
        }
        let model = |layout: &Layout| layout.text("melisma.model").map(str::to_owned);
        if let (Some(ours), Some(theirs)) = (model(&layout), model(&part.layout))
            && ours != theirs
        {
            let message =
                format!("{}: its codes are of the model {theirs:.32}, the first shard's of {ours:.32}", path.display());
            return Err(Error::invalid(message).with_hint("encode all shards with the same model"));
        }
        if part.layout.text("config") != Some(&config) || part.layout.columns.len() != layout.columns.len() {
            return Err(Error::invalid(format!("{}: it was built with other settings", path.display()))
                .with_hint("shards must have the same preset, segments and element type"));
        }
        for column in &mut layout.columns {
            let theirs = &part.layout.columns[part.layout.column(&column.name)?];
            match (&mut column.element, theirs.element) {
                (ColumnType::Text(width), ColumnType::Text(other)) => *width = (*width).max(other),
                (ours, theirs) if *ours == theirs => {}
                _ => return Err(Error::invalid(format!("{}: `{}` is of another type", path.display(), column.name))),
            }
            if column.shape != theirs.shape {
                return Err(Error::invalid(format!("{}: `{}` has another shape", path.display(), column.name)));
            }
            column.len = column.len.map(|len| len + entries(&part.layout, theirs));
        }
        layout.n_rows += part.layout.n_rows;
        let add = |found: Found<'_>| {
            identity.add_entry(&found.entry);
            counters.check_stop()
        };
        let each = Table::new(part)?.each(0..part.layout.n_rows, add);
        each.map_err(|error| error.at(path.display()))?;
    }
    layout.attributes.insert("plan".to_owned(), Value::from(identity.finish()));
    Ok(layout)
}

/// Returns the entries that a shard adds to a column: the last one of its offsets is the first of
/// the next shard's.
fn entries(layout: &Layout, column: &Column) -> u64 {
    if layout.extent(&column.name) == Extent::Values { layout.len(column) } else { layout.n_rows }
}

/// Copies all columns to `starts`, which move to their ends.
pub(super) fn copy(
    from: &Store,
    to: &Store,
    starts: &mut [u64],
    (budget, counters): (&Budget, &Counters),
) -> Result<()> {
    let (before, ragged) = (starts.to_vec(), from.layout.ragged());
    for (column, theirs) in from.layout.columns.iter().enumerate() {
        let ours = to.layout.column(&theirs.name)?;
        let n_entries = from.layout.len(theirs);
        let values = ragged.iter().find(|(_, offsets)| *offsets == theirs.name).map(|(values, _)| values.as_str());
        // What is added to every offset.
        let moved = values.map_or(Ok(0), |values| to.layout.column(values).map(|values| before[values]))?;
        starts[ours] += entries(&from.layout, theirs);
        let (width, wide) = (theirs.row_bytes(), to.layout.columns[ours].row_bytes());
        // Rows that become wider are held twice.
        let copies = if width == wide { 1 } else { 2 };
        let most = BLOCK.min(usize::try_from(budget.free(Space::Host)).unwrap_or(BLOCK) / copies);
        let per_block = (most / wide.max(1)).max(1) as u64;
        let least = (wide * copies) as u64;
        let _held = budget.reserve(Space::Host, per_block * least).map_err(|error| {
            let least = least.div_ceil(1 << 20) << 20;
            Error::new(error.kind(), error.to_string()).with_hint(Remedy::RaiseMemoryLimit { least: Some(least) })
        })?;
        let mut row = 0;
        while row < n_entries {
            counters.check_stop()?;
            let n = per_block.min(n_entries - row);
            let mut bytes = vec![0; n as usize * width];
            from.read(column, row, &mut bytes)?;
            if width != wide {
                let mut padded = vec![0; n as usize * wide];
                padded
                    .chunks_mut(wide)
                    .zip(bytes.chunks(width))
                    .for_each(|(to, from)| to[..width].copy_from_slice(from));
                bytes = padded;
            }
            if moved > 0 {
                for offset in bytes.as_chunks_mut::<8>().0 {
                    *offset = (u64::from_le_bytes(*offset) + moved).to_le_bytes();
                }
            }
            to.write(ours, before[ours] + row, &bytes)?;
            row += n;
        }
    }
    Ok(())
}
