//! Sizes and tables of a SoundFont, before they are trusted.

use super::HINT;
use crate::{Error, Result};

/// A list of fixed-size records, and where each has the index of its first record in the list below it.
struct Table {
    name: &'static [u8; 4],
    record: usize,
    index_at: usize,
    below: &'static [u8; 4],
}

/// Presets and instruments have zones, zones have generators.
const TABLES: [Table; 4] = [
    Table { name: b"phdr", record: 38, index_at: 24, below: b"pbag" },
    Table { name: b"pbag", record: 4, index_at: 0, below: b"pgen" },
    Table { name: b"inst", record: 22, index_at: 20, below: b"ibag" },
    Table { name: b"ibag", record: 4, index_at: 0, below: b"igen" },
];
/// Bytes of a record, by the list.
const RECORDS: [(&[u8; 4], usize); 7] =
    [(b"phdr", 38), (b"pbag", 4), (b"pgen", 4), (b"inst", 22), (b"ibag", 4), (b"igen", 4), (b"shdr", 46)];

/// Checks that chunks are within the file and that indices of tables never go back, so that no record is counted twice.
pub(super) fn check(bytes: &[u8]) -> Result<()> {
    if bytes.get(..4) != Some(b"RIFF") || bytes.get(8..12) != Some(b"sfbk") {
        return Err(Error::unsupported("this is not a SoundFont: it does not begin with RIFF and sfbk")
            .with_hint("name an .sf2 file; .sf3 and .sfz are other formats"));
    }
    let mut parameters = None;
    let mut at = 12;
    while at < bytes.len() {
        let (name, body) = chunk(bytes, at)?;
        at += 8 + body.len();
        if name != b"LIST" || body.len() < 4 {
            return Err(corrupt(at - 8 - body.len(), "a chunk other than a list"));
        }
        let chunks = children(bytes, at - body.len() + 4, at)?;
        if body.starts_with(b"pdta") {
            parameters = Some(chunks);
        }
        // Trailing bytes of the RIFF chunk, which editors leave, are not read.
        if parameters.is_some() {
            break;
        }
    }
    let parameters = parameters.ok_or_else(|| Error::truncated("SoundFont: it has no presets").with_hint(HINT))?;
    let find = |wanted: &[u8; 4]| {
        let mut found = parameters.iter().filter(|(name, _)| *name == wanted);
        let missing = || {
            let name = String::from_utf8_lossy(wanted).into_owned();
            Error::corrupt(format!("SoundFont: it needs the list `{name}` once")).with_hint(HINT)
        };
        found.next().filter(|_| found.next().is_none()).map(|(_, body)| *body).ok_or_else(missing)
    };
    for (name, record) in RECORDS {
        let body = find(name)?;
        if body.is_empty() || !body.len().is_multiple_of(record) {
            let name = String::from_utf8_lossy(name);
            return Err(Error::corrupt(format!(
                "SoundFont: `{name}` has {} bytes, not records of {record}",
                body.len()
            ))
            .with_hint(HINT));
        }
    }
    TABLES.iter().try_for_each(|table| table.check(find(table.name)?, find(table.below)?))
}

impl Table {
    fn check(&self, body: &[u8], below: &[u8]) -> Result<()> {
        let record = RECORDS.iter().find(|(name, _)| *name == self.below).map_or(1, |(_, record)| *record);
        let n_below = below.len() / record;
        let mut last = 0;
        for (index, record) in body.chunks_exact(self.record).enumerate() {
            let first = usize::from(u16::from_le_bytes([record[self.index_at], record[self.index_at + 1]]));
            if first < last || first >= n_below {
                let [name, below] = [self.name, self.below].map(|name| String::from_utf8_lossy(name));
                let message =
                    format!("SoundFont: `{name}` {index} begins at {first}; {last} to {} in `{below}`", n_below - 1);
                return Err(Error::corrupt(message).with_hint(HINT));
            }
            last = first;
        }
        Ok(())
    }
}

/// Returns the name and the body of each chunk from `at` to `end`.
fn children(bytes: &[u8], mut at: usize, end: usize) -> Result<Vec<(&[u8], &[u8])>> {
    let mut chunks = Vec::new();
    while at < end {
        let (name, body) = chunk(&bytes[..end], at)?;
        chunks.push((name, body));
        at += 8 + body.len();
    }
    Ok(chunks)
}

fn chunk(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8])> {
    let head = bytes.get(at..at + 8).ok_or_else(|| cut(at, 8, bytes.len()))?;
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let body = bytes.get(at + 8..).and_then(|rest| rest.get(..len)).ok_or_else(|| cut(at + 8, len, bytes.len()))?;
    Ok((&head[..4], body))
}

fn cut(at: usize, len: usize, end: usize) -> Error {
    let left = end.saturating_sub(at);
    Error::truncated(format!("SoundFont: byte {at}: {len} bytes are announced, {left} are left"))
        .with_hint("the file was cut off or damaged: make or fetch it again")
}

fn corrupt(at: usize, what: &str) -> Error {
    Error::corrupt(format!("SoundFont: byte {at}: {what}")).with_hint(HINT)
}
