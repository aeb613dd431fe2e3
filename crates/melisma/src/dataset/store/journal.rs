//! Records which rows are written: a text file beside the partial output, one line per event, each
//! with its CRC-32.
//!
//! ```text
//! 5d0a9f3e {"journal":1,"plan":"...","inputs":"...","boot":"..."}
//! 0b1c77aa {"rows":[[0,16]],"failures":[]}
//! 77f0c1de {"synced":true}
//! ```
//!
//! The plan is a hash. What its settings are, for messages about others, the attributes of the partial output say;
//! where it has none, the header has `settings`.
//!
//! A row's bytes are passed to the system before its line. After a kill, both are there, so every
//! complete line counts and a truncated one does not. After a crash of the machine, only the lines
//! above the last `synced` count: they and their rows were on disk. The boot id tells the two cases
//! apart.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dataset::failure::RowFailure;
use crate::{Error, Result, output};

const VERSION: u32 = 1;
/// The bytes after the first CRC-32.
const START: &[u8] = b" {\"journal\":";
const CRC_DIGITS: usize = 8;
/// The longest line that is read back.
const MAX_LINE: u64 = 16 << 20;

/// The first line: the plan and the inputs that the journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The format's version.
    pub journal: u32,
    /// The plan's hash.
    pub plan: String,
    /// The fingerprint of the input files.
    pub inputs: String,
    boot: String,
    /// The settings by name, where the partial output does not have them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

/// The result of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Ranges of rows: first and count.
    pub rows: Vec<(u32, u32)>,
    /// Files that failed.
    pub failures: Vec<RowFailure>,
    /// The tokens of the row, where the plan does not say how many they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Gathered>,
}

/// Tokens that were appended to the rows before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// Their frames.
    pub frames: u32,
    /// XXH3 of their bytes.
    pub checksum: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Header(Header),
    Record(Record),
    Synced { synced: bool },
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// The journal of an earlier run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Past {
    /// The header of that run.
    pub header: Header,
    /// The batches that count.
    pub records: Vec<Record>,
}

impl Header {
    /// Returns the header of a journal for `plan` over `inputs`.
    pub fn new(plan: &str, inputs: &str) -> Self {
        let (plan, inputs) = (plan.to_owned(), inputs.to_owned());
        Self { journal: VERSION, plan, inputs, boot: boot_id(), settings: Map::new() }
    }

    setters! {
        /// Sets what the settings are, by name.
        pub fn with_settings(settings: Map<String, Value>);
    }
}

/// Returns an id that changes when the machine boots; empty if the system has none.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

impl Journal {
    /// Creates a journal, replacing any at `path`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self> {
        let file = File::create(path).map_err(|error| output::failed(path, error))?;
        let mut journal = Self { path: path.to_owned(), file };
        journal.append(&Line::Header(header.clone()))?;
        Ok(journal)
    }

    /// Continues the journal at `path` with the records in `past`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn reopen(path: &Path, past: &Past) -> Result<Self> {
        // Rewritten, which drops a truncated line and records the current boot id.
        let beside = path.with_extension("journal.new");
        let mut journal = Self::create(&beside, &Header { boot: boot_id(), ..past.header.clone() })?;
        for record in &past.records {
            journal.append(&Line::Record(record.clone()))?;
        }
        journal.append(&Line::Synced { synced: true })?;
        journal.file.sync_data().map_err(|error| output::failed(path, error))?;
        std::fs::rename(&beside, path).map_err(|error| output::failed(path, error))?;
        journal.path = path.to_owned();
        Ok(journal)
    }

    /// Records a finished batch. Its rows have been passed to the system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&mut self, record: Record) -> Result<()> {
        self.append(&Line::Record(record))
    }

    /// Records that all rows so far are on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn synced(&mut self) -> Result<()> {
        self.append(&Line::Synced { synced: true })?;
        self.file.sync_data().map_err(|error| output::failed(&self.path, error))
    }

    fn append(&mut self, line: &Line) -> Result<()> {
        let json = serde_json::to_string(line).map_err(|error| Error::invalid(error.to_string()))?;
        let text = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        // A single write: a kill leaves the whole line or its start.
        self.file.write_all(text.as_bytes()).map_err(|error| output::failed(&self.path, error))
    }
}

/// Reads the journal at `path`; `None` if there is no usable one.
pub fn read(path: &Path) -> Option<Past> {
    let mut reader = BufReader::new(OpenOptions::new().read(true).open(path).ok()?);
    let mut header = None;
    let (mut records, mut n_synced) = (Vec::new(), 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = Read::take(&mut reader, MAX_LINE).read_until(b'\n', &mut line).ok()?;
        let Some(line) = (n > 0).then(|| parse(&line)).flatten() else { break };
        match (line, &header) {
            (Line::Header(found), None) if found.journal == VERSION => header = Some(found),
            (Line::Record(record), Some(_)) => records.push(record),
            (Line::Synced { .. }, Some(_)) => n_synced = records.len(),
            _ => return None,
        }
    }
    let header = header?;
    if header.boot.is_empty() || header.boot != boot_id() {
        records.truncate(n_synced);
    }
    Some(Past { header, records })
}

/// Returns whether the file at `path` starts like a journal. A journal truncated by a kill before
/// that point counts too.
pub(super) fn is_journal(path: &Path) -> bool {
    let mut start = Vec::new();
    let most = (CRC_DIGITS + START.len()) as u64;
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut start));
    let (sum, rest) = start.split_at(start.len().min(CRC_DIGITS));
    read.is_ok() && sum.iter().all(u8::is_ascii_hexdigit) && START.starts_with(rest)
}

fn parse(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, json) = text.split_once(' ')?;
    (u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(json.as_bytes())).then_some(())?;
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(first: u32) -> Record {
        Record { rows: vec![(first, 2)], ..Record::default() }
    }

    #[test]
    fn whole_lines_count_and_cut_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let header = Header::new("plan", "inputs");
        let mut journal = Journal::create(&path, &header).unwrap();
        (0..3).for_each(|i| journal.record(record(i)).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for len in 0..=whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let lines = whole[..len].iter().filter(|&&byte| byte == b'\n').count();
            assert!(is_journal(&path), "cut at {len}");
            match read(&path) {
                None => assert_eq!(lines, 0, "cut at {len}"),
                Some(past) => {
                    assert_eq!((past.header, past.records.len() + 1), (header.clone(), lines), "cut at {len}")
                }
            }
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            assert!(read(&path).is_none_or(|past| past.records.len() < 3), "byte {at}");
        }
    }

    #[test]
    fn settings_stay_and_journals_without_them_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let header = Header::new("p", "i");
        let old = serde_json::to_string(&header).unwrap();
        assert!(!old.contains("settings"), "{old}");
        std::fs::write(&path, format!("{:08x} {old}\n", crc32fast::hash(old.as_bytes()))).unwrap();
        assert_eq!(read(&path).unwrap().header, header);
        let settings: Map<String, Value> = [("top_k".to_owned(), Value::from(40))].into_iter().collect();
        let header = header.with_settings(settings.clone());
        drop(Journal::create(&path, &header).unwrap());
        assert!(is_journal(&path));
        let past = read(&path).unwrap();
        Journal::reopen(&path, &past).unwrap().record(record(0)).unwrap();
        let again = read(&path).unwrap();
        assert_eq!((again.header.settings, again.records), (settings, vec![record(0)]));
    }

    #[test]
    fn after_a_crash_of_the_machine_only_what_was_synced_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let mut journal =
            Journal::create(&path, &Header { boot: "other".to_owned(), ..Header::new("p", "i") }).unwrap();
        journal.record(record(0)).unwrap();
        journal.synced().unwrap();
        journal.record(record(2)).unwrap();
        assert_eq!(read(&path).unwrap().records, [record(0)]);
        let past = read(&path).unwrap();
        Journal::reopen(&path, &past).unwrap().record(record(4)).unwrap();
        assert_eq!(read(&path).unwrap().records, [record(0), record(4)]);
    }

    #[test]
    fn what_is_kept_counts_as_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let past = Past { header: Header::new("p", "i"), records: vec![record(0)] };
        Journal::reopen(&path, &past).unwrap().record(record(2)).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        let (_, lines) = kept.split_once('\n').unwrap();
        let mut crashed = Journal::create(&path, &Header { boot: "other".to_owned(), ..past.header }).unwrap();
        crashed.file.write_all(lines.as_bytes()).unwrap();
        assert_eq!(read(&path).unwrap().records, [record(0)]);
    }
}
