//! The rows of unfinished work, in the order in which they came.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::Gather;
use crate::dataset::failure::RowFailure;
use crate::dataset::store::change::Change;
use crate::dataset::store::guard;
use crate::dataset::store::journal::{self, Gathered, Header, Journal, Record};
use crate::dataset::store::paths::Paths;
use crate::output::{self, Existing};
use crate::snac::Codes;
use crate::{Error, Result};

/// How often rows are synced to disk. A crash of the machine loses at most this much work.
const SYNC_EVERY: Duration = Duration::from_secs(10);

/// Where the frames of a row are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// The frames of the rows that came before.
    pub(super) first: u64,
    pub(super) tokens: Gathered,
}

/// The file of rows, and its journal.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    file: File,
    journal: Journal,
    frame_bytes: u64,
    /// What became of each row: nothing yet, a failure, or frames.
    rows: Vec<Option<Option<Span>>>,
    failures: Vec<RowFailure>,
    n_frames: u64,
    synced: Instant,
}

impl Spool {
    /// Opens the files of an earlier run of the same request, or begins anew.
    pub(super) fn open(paths: &Paths, gather: &Gather) -> Result<Self> {
        let plan = [&gather.request, gather.shard().as_deref().unwrap_or_default()].join(" ");
        let header = Header::new(plan.trim_end(), "").with_settings(gather.recorded());
        let failed = |error| output::failed(&paths.partial, error);
        let past = journal::read(&paths.journal).filter(|_| paths.partial.is_file());
        let is_same = past.as_ref().is_some_and(|past| past.header.plan == header.plan);
        if let Some(past) = past.as_ref().filter(|_| !is_same && gather.existing == Existing::Refuse) {
            // The request also has what is said of single rows, such as voices and seeds.
            let change = match Change::of_settings(&past.header.settings, &header.settings) {
                Change::Files => Change::Unknown,
                change => change,
            };
            return Err(guard::unfinished(paths, &change));
        }
        if paths.partial.is_dir() {
            guard::remove(&paths.partial)?;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&paths.partial).map_err(failed)?;
        if matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
            let message = format!("{}: another process is making this corpus", gather.output.display());
            return Err(
                Error::new(crate::ErrorKind::Busy, message).with_hint("wait for it to end, or choose another name")
            );
        }
        let frame_bytes = 2 * gather.model.config().n_slots() as u64;
        let mut past = past.filter(|_| is_same);
        if let Some(past) = &mut past {
            let n_whole = file.metadata().map_err(failed)?.len() / frame_bytes;
            truncate(&mut past.records, gather.rows.len(), n_whole);
        }
        let journal = match &past {
            Some(past) => Journal::reopen(&paths.journal, past)?,
            None => Journal::create(&paths.journal, &header)?,
        };
        let mut spool = Self {
            path: paths.partial.clone(),
            file,
            journal,
            frame_bytes,
            rows: vec![None; gather.rows.len()],
            failures: Vec::new(),
            n_frames: 0,
            synced: Instant::now(),
        };
        past.into_iter().flat_map(|past| past.records).for_each(|record| spool.count(record));
        spool.file.set_len(spool.n_frames * frame_bytes).map_err(failed)?;
        paths.conceal()?;
        Ok(spool)
    }

    pub(super) fn is_done(&self, row: usize) -> bool {
        self.rows[row].is_some()
    }

    pub(super) fn n_done(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    pub(super) fn n_frames(&self) -> u64 {
        self.n_frames
    }

    pub(super) fn failures(&self) -> &[RowFailure] {
        &self.failures
    }

    /// Returns where the frames of a row are, if it has not failed.
    pub(super) fn span(&self, row: usize) -> Option<Span> {
        self.rows[row].flatten()
    }

    /// Reads frames, from the `first` of the file on.
    pub(super) fn read(&self, first: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, first * self.frame_bytes).map_err(|error| Error::io(self.path.display(), error))
    }

    pub(super) fn push(&mut self, row: usize, codes: &Codes) -> Result<()> {
        let bytes: Vec<u8> = codes.frames().as_slice().iter().flat_map(|&code| (code as u16).to_le_bytes()).collect();
        let frames = codes.n_frames();
        if bytes.len() as u64 != frames as u64 * self.frame_bytes {
            return Err(Error::invalid("the codes are of another model than the corpus"));
        }
        let frames = u32::try_from(frames).map_err(|_| Error::unsupported(format!("{frames} frames in one row")))?;
        let written = self.file.write_all_at(&bytes, self.n_frames * self.frame_bytes);
        written.map_err(|error| output::failed(&self.path, error))?;
        let tokens = Some(Gathered { frames, checksum: xxh3_64(&bytes) });
        self.record(Record { rows: vec![(row as u32, 1)], failures: Vec::new(), tokens })
    }

    pub(super) fn fail(&mut self, row: usize, failed: RowFailure) -> Result<()> {
        self.record(Record { rows: vec![(row as u32, 1)], failures: vec![failed], tokens: None })
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.journal.record(record.clone())?;
        self.count(record);
        if self.synced.elapsed() > SYNC_EVERY {
            self.file.sync_data().map_err(|error| output::failed(&self.path, error))?;
            self.journal.synced()?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    fn count(&mut self, record: Record) {
        let span = record.tokens.map(|tokens| Span { first: self.n_frames, tokens });
        for &(row, _) in &record.rows {
            self.rows[row as usize] = Some(span);
        }
        self.n_frames += record.tokens.map_or(0, |tokens| u64::from(tokens.frames));
        self.failures.extend(record.failures);
    }
}

/// Leaves the records of rows of the plan, one each, as far as the file holds their frames.
fn truncate(records: &mut Vec<Record>, n_rows: usize, n_frames: u64) {
    let (mut n_needed, mut is_done) = (0, vec![false; n_rows]);
    let n_whole = records
        .iter()
        .take_while(|record| {
            n_needed += record.tokens.map_or(0, |tokens| u64::from(tokens.frames));
            let row = match record.rows[..] {
                [(row, 1)] => is_done.get_mut(row as usize),
                _ => None,
            };
            n_needed <= n_frames && row.is_some_and(|is_done| !std::mem::replace(is_done, true))
        })
        .count();
    records.truncate(n_whole);
}
