//! A row on its way: its codes are written as they come.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::Xxh3Default;

use super::job::Run;
use super::round_trip::RoundTrip;
use crate::dataset::counters::Stage;
use crate::dataset::failure::{Failure, RowFailure};
use crate::dataset::row::{Row, Status};
use crate::dataset::store::hash::MEASURED;
use crate::dataset::store::journal::Record;
use crate::snac::Frames;
use crate::{Error, ErrorKind, Result};

/// Bytes of codes that are written at once.
const BLOCK: usize = 1 << 16;

/// The codes of one row, written as they come.
pub(super) struct Lane<'a> {
    run: &'a Run<'a>,
    pub(super) row: u32,
    /// Frames that came.
    n_frames: u64,
    checksum: Xxh3Default,
    /// The last of them, which are not written yet.
    bytes: Vec<u8>,
    /// What [`MEASURED`] holds.
    measured: Option<[f32; 2]>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(run: &'a Run<'a>, row: u32) -> Self {
        Self { run, row, n_frames: 0, checksum: Xxh3Default::new(), bytes: Vec::new(), measured: None }
    }

    fn planned(&self) -> &Row {
        &self.run.shared.work.plan.rows[self.row as usize]
    }

    /// Returns whether all codes have come.
    pub(super) fn is_complete(&self) -> bool {
        self.n_frames == u64::from(self.planned().valid_frames)
    }

    /// Takes the next codes.
    pub(super) fn push(&mut self, frames: Frames<'_>) -> Result<()> {
        let n_frames = self.n_frames + frames.len() as u64;
        if n_frames > u64::from(self.planned().valid_frames) {
            return Err(Error::invalid("the encoder made more frames than were planned"));
        }
        self.bytes.extend(frames.as_slice().iter().flat_map(|&code| (code as u16).to_le_bytes()));
        self.n_frames = n_frames;
        if self.bytes.len() < BLOCK { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let shared = self.run.shared;
        self.checksum.update(&self.bytes);
        let n_written = (self.bytes.len() / (2 * self.run.job.n_slots)) as u64;
        let first = self.planned().start + self.n_frames - n_written;
        let write = || shared.work.store.write(shared.columns.values, first, &self.bytes);
        shared.work.counters.time(Stage::Write, write)?;
        shared.work.counters.bytes_written.fetch_add(self.bytes.len() as u64, Relaxed);
        self.bytes.clear();
        Ok(())
    }

    /// Records that the row is complete, after comparing it with its file if that was asked for.
    pub(super) fn finish(mut self, check: Option<&mut RoundTrip>) -> Result<()> {
        self.write()?;
        if !self.is_complete() {
            return Err(Error::invalid("the encoder made fewer frames than were planned"));
        }
        let measured = match check.map(|check| check.measure(self.run, self.row)).transpose() {
            Ok(measured) => measured,
            Err(error) if matches!(error.kind(), ErrorKind::Memory | ErrorKind::Device) => return Err(error),
            // The row is encoded again when the build resumes.
            Err(_) if self.run.shared.is_stopped() => return Ok(()),
            Err(error) => return self.fail("verify", &error),
        };
        self.measured =
            measured.map(|found| [found.snr_db, found.log_mel_distance].map(|n| n.map_or(f32::NAN, |n| n as f32)));
        let counters = self.run.shared.work.counters;
        counters.files.fetch_add(1, Relaxed);
        counters.samples.fetch_add(self.planned().n_samples, Relaxed);
        let checksum = self.checksum.digest();
        let clipped = self.run.clipped.lock().remove(&self.row);
        let clipped = clipped.map(|note| {
            let plan = self.run.shared.work.plan;
            let name = plan.input_of(self.planned()).name().into_owned();
            self.run.shared.list(self.row, Failure::clipped(name, note))
        });
        self.settle(Status::Ok, checksum, clipped.into_iter().collect())
    }

    /// Zeroes the row, because its file failed at `stage`.
    pub(super) fn fail(mut self, stage: &str, error: &Error) -> Result<()> {
        let failure = self.run.shared.fail(self.row, stage, error)?;
        self.checksum = Xxh3Default::new();
        let n_slots = self.run.job.n_slots as u64;
        let (first, n) = (self.planned().start, u64::from(self.planned().valid_frames));
        let per_write = (BLOCK as u64 / (2 * n_slots)).max(1);
        for part in parts(first..first + n, per_write) {
            let zeros = vec![0; ((part.end - part.start) * 2 * n_slots) as usize];
            self.checksum.update(&zeros);
            self.run.shared.work.store.write(self.run.shared.columns.values, part.start, &zeros)?;
        }
        let checksum = self.checksum.digest();
        self.settle(Status::of(error), checksum, vec![failure])
    }

    fn settle(self, status: Status, checksum: u64, failures: Vec<RowFailure>) -> Result<()> {
        let (shared, row) = (self.run.shared, u64::from(self.row));
        let store = shared.work.store;
        store.write(shared.columns.checksum, row, &checksum.to_le_bytes())?;
        store.write(shared.columns.status, row, &[status as u8])?;
        if self.run.job.measures() {
            for (name, number) in MEASURED.into_iter().zip(self.measured.unwrap_or([f32::NAN; 2])) {
                store.write(store.layout.column(name)?, row, &number.to_le_bytes())?;
            }
        }
        self.run
            .table
            .each(row..row + 1, |found| store.write(shared.columns.row_hash, row, &found.entry.hash().to_le_bytes()))?;
        shared.work.counters.rows.fetch_add(1, Relaxed);
        shared.record(Record { rows: vec![(self.row, 1)], failures, tokens: None })
    }
}

fn parts(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(most as usize).map(move |first| first..(first + most).min(end))
}
