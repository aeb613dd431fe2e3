//! Writes the rows of a store as lines.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde_json::{Map, Value};

use super::origin::Origin;
use super::{LineFormat, Lines, Repeats};
use crate::dataset::counters::Counters;
use crate::dataset::row::Status;
use crate::dataset::store::hash::{Entry, MEASURED, Table};
use crate::dataset::store::paths::beside;
use crate::dataset::store::{Layout, Store, guard};
use crate::output::{self, Existing, OutputFile};
use crate::snac::tokens::{FIRST_ID, FIRST_TOKEN, SLOT_CODES, check_orpheus_strides};
use crate::snac::{Slot, slot_order};
use crate::{Error, Result};

/// Frames that are read at once.
const FRAMES: u64 = 4096;

impl Lines {
    /// Writes the valid rows of `store` to `path`, in order, and what they were made from.
    pub(in crate::dataset) fn write(self, store: &Store, path: &Path, existing: Existing) -> Result<()> {
        self.write_all(&[store], &store.layout.attributes, (path, existing, &Counters::default())).map(drop)
    }

    /// Writes the valid rows of `stores` to `path`, one after the other, and that they have these `attributes`. Returns
    /// the number of lines.
    pub(in crate::dataset) fn write_all(
        self,
        stores: &[&Store],
        attributes: &Map<String, Value>,
        (path, existing, counters): (&Path, Existing, &Counters),
    ) -> Result<u64> {
        let first = stores.first().ok_or_else(|| Error::invalid("lines of no rows at all"))?;
        let strides = strides(&first.layout)?;
        let mut writer = Writer {
            lines: self,
            store: first,
            codes: 0,
            slots: slot_order(&strides),
            n_levels: strides.len(),
            kept: Vec::new(),
            has_measures: false,
            // The rows have the name `OUT.partial`.
            file: BufWriter::with_capacity(1 << 18, OutputFile::create(&beside(path, ".lines"), Existing::Replace)?),
            text: String::new(),
            origin: Origin::new(self, attributes.clone()),
            hash: blake3::Hasher::new(),
        };
        let failed = |error| output::failed(path, error);
        for &store in stores {
            writer.store = store;
            writer.codes = store.layout.column("codes")?;
            writer.kept = store.layout.kept().into_iter().map(str::to_owned).collect();
            writer.has_measures = store.layout.column(MEASURED[0]).is_ok();
            Table::new(store)?.each(0..store.layout.n_rows, |found| {
                counters.check_stop()?;
                match found.entry.status == Status::Ok as u8 {
                    true => writer.line(&found.entry, found.values).map_err(|error| error.at(path.display())),
                    false => Ok(()),
                }
            })?;
        }
        writer.file.flush().map_err(failed)?;
        if existing == Existing::Refuse && path.exists() {
            return Err(guard::already(path, ""));
        }
        // First: lines never appear without it.
        writer.origin.blake3 = writer.hash.finalize().to_hex().to_string();
        writer.origin.write(path)?;
        let n_lines = writer.origin.rows;
        writer.file.into_inner().map_err(|error| failed(error.into_error()))?.commit_as(path.to_owned())?;
        Ok(n_lines)
    }

    /// Fails if rows of this layout cannot be written as such lines.
    pub(in crate::dataset) fn check_layout(self, layout: &Layout) -> Result<()> {
        if !layout.is_tokens() {
            return Err(Error::invalid("spectrograms have no lines").with_hint("use a name that ends with .h5"));
        }
        let strides = strides(layout)?;
        if self.format == LineFormat::Orpheus { check_orpheus_strides(&strides) } else { Ok(()) }
    }
}

fn strides(layout: &Layout) -> Result<Vec<usize>> {
    let text = layout.text("melisma.strides");
    let strides = text.and_then(|text| text.split(' ').map(|n| n.parse().ok()).collect());
    strides.ok_or_else(|| Error::corrupt("the tokens have no `melisma.strides`"))
}

struct Writer<'a> {
    lines: Lines,
    store: &'a Store,
    codes: usize,
    slots: Vec<Slot>,
    n_levels: usize,
    /// The columns that come from a table.
    kept: Vec<String>,
    has_measures: bool,
    file: BufWriter<OutputFile>,
    text: String,
    origin: Origin,
    hash: blake3::Hasher,
}

impl Writer<'_> {
    fn line(&mut self, entry: &Entry<'_>, frames: std::ops::Range<u64>) -> Result<()> {
        let json =
            |value: &dyn Fn() -> serde_json::Result<String>| value().map_err(|error| Error::invalid(error.to_string()));
        let path = String::from_utf8_lossy(entry.name);
        let (text, measured) = entry.tokens.unwrap_or_default();
        self.text.clear();
        self.text += "{\"path\":";
        self.text += &json(&|| serde_json::to_string(&path))?;
        self.text += ",\"seconds\":";
        self.text += &json(&|| serde_json::to_string(&f64::from_bits(entry.place)))?;
        if !text.is_empty() {
            self.text += ",\"text\":";
            self.text += &json(&|| serde_json::to_string(&String::from_utf8_lossy(text)))?;
        }
        for (name, value) in self.kept.iter().zip(entry.kept) {
            let value = String::from_utf8_lossy(value);
            self.text +=
                &format!(",{}:{}", json(&|| serde_json::to_string(name))?, json(&|| serde_json::to_string(&value))?);
        }
        if self.has_measures {
            for (name, bits) in MEASURED.iter().zip(measured) {
                let number = f32::from_bits(bits as u32);
                self.text += &format!(",\"{name}\":{}", json(&|| serde_json::to_string(&number))?);
            }
        }
        match self.lines.format {
            LineFormat::Orpheus => {
                self.text += ",\"codes_list\":[";
                let write = |out: &mut String, slot: usize, code: u16| {
                    let id = FIRST_ID + FIRST_TOKEN + slot as i64 * SLOT_CODES + i64::from(code);
                    write!(out, "{id},")
                };
                self.list(frames, |_| true, write)?;
                self.text += "]";
            }
            LineFormat::Codes => {
                self.text += ",\"codes\":[";
                for level in 0..self.n_levels {
                    self.text += if level == 0 { "[" } else { ",[" };
                    self.list(frames.clone(), |slot| slot.level == level, |out, _, code| write!(out, "{code},"))?;
                    self.text += "]";
                }
                self.text += "]";
            }
        }
        self.text += "}\n";
        self.origin.rows += 1;
        self.flush()
    }

    /// Writes the codes of the slots that `is_wanted` takes, without the last comma.
    fn list(
        &mut self,
        frames: std::ops::Range<u64>,
        is_wanted: impl Fn(&Slot) -> bool,
        write: impl Fn(&mut String, usize, u16) -> std::fmt::Result,
    ) -> Result<()> {
        let n_slots = self.slots.len();
        let mut last = None;
        let mut first = frames.start;
        while first < frames.end {
            let n = FRAMES.min(frames.end - first);
            let mut bytes = vec![0; n as usize * n_slots * 2];
            self.store.read(self.codes, first, &mut bytes)?;
            let codes: Vec<u16> = bytes.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes)).collect();
            for frame in codes.chunks_exact(n_slots) {
                if self.lines.repeats == Repeats::Drop && last.replace(frame[0]) == Some(frame[0]) {
                    continue;
                }
                for (index, (slot, &code)) in self.slots.iter().zip(frame).enumerate() {
                    if is_wanted(slot) {
                        write(&mut self.text, index, code).map_err(|error| Error::invalid(error.to_string()))?;
                    }
                }
            }
            first += n;
            if first < frames.end {
                self.flush()?;
            }
        }
        self.text.truncate(self.text.trim_end_matches(',').len());
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        // A list may end without a comma only when its last code is known.
        let end = if self.text.ends_with(',') { self.text.len() - 1 } else { self.text.len() };
        let bytes = &self.text.as_bytes()[..end];
        self.file.write_all(bytes).map_err(|error| Error::io("writing", error))?;
        self.hash.update(bytes);
        self.origin.bytes += bytes.len() as u64;
        self.text.drain(..end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::DType;
    use crate::dataset::store::{Column, HASH_COLUMN, KIND, Kind, TOKENS};

    /// Returns tokens of one row of `n_frames` frames with one code each.
    fn tokens(path: &Path, n_frames: u64, code: impl Fn(u64) -> u16) -> Store {
        let columns = vec![
            Column { shape: vec![1], ..Column::ragged("codes", DType::U16, n_frames) },
            Column::ragged("offsets", DType::U64, 2),
            Column::flat("seconds", DType::F64),
            Column::flat("status", DType::U8),
            Column::ragged("path", DType::U8, 1),
            Column::ragged("path_offsets", DType::U64, 2),
            Column::ragged("text", DType::U8, 0),
            Column::ragged("text_offsets", DType::U64, 2),
            Column::flat("file_index", DType::I64),
            Column::flat("checksum", DType::U64),
            Column::flat(HASH_COLUMN, DType::U64),
        ];
        let attributes = json!({ KIND: TOKENS, "melisma.strides": "1" }).as_object().unwrap().clone();
        let store = Store::create(path, Kind::Safetensors, Layout { n_rows: 1, columns, attributes }).unwrap();
        let write = |name: &str, bytes: &[u8]| store.write(store.layout.column(name).unwrap(), 0, bytes).unwrap();
        write("codes", &(0..n_frames).flat_map(|frame| code(frame).to_le_bytes()).collect::<Vec<u8>>());
        write("offsets", &[0, n_frames].map(u64::to_le_bytes).concat());
        write("path", b"a");
        write("path_offsets", &[0, 1].map(u64::to_le_bytes).concat());
        store
    }

    #[test]
    fn long_rows_are_written_in_parts_that_are_not_seen() {
        let folder = tempfile::tempdir().unwrap();
        let n_frames = 2 * FRAMES + 5;
        // The last frame of a part has the code of the first one of the next.
        let store = tokens(&folder.path().join("a.safetensors"), n_frames, |frame| (frame + 1) as u16 / 2);
        let codes = |repeats| {
            let path = folder.path().join("a.jsonl");
            Lines::default().with_repeats(repeats).write(&store, &path, Existing::Replace).unwrap();
            let line: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            line["codes"].clone()
        };
        assert_eq!(codes(Repeats::Keep), json!([(0..n_frames).map(|frame| frame.div_ceil(2)).collect::<Vec<_>>()]));
        assert_eq!(codes(Repeats::Drop), json!([(0..=n_frames / 2).collect::<Vec<_>>()]));
    }
}
