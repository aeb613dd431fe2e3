//! Reads the file of a row.

use std::sync::atomic::Ordering::Relaxed;

use super::job::Run;
use crate::Result;
use crate::audio::Source;
use crate::dataset::counters::Stage;

/// The samples of one row's file, in order.
#[derive(Debug)]
pub(super) struct Reader {
    source: Source,
    row: u32,
    /// The first sample that is used, and how many are.
    first: u64,
    n_samples: u64,
    at: u64,
}

impl Reader {
    pub(super) fn open(run: &Run<'_>, row: u32) -> Result<Self> {
        let plan = run.shared.work.plan;
        let planned = &plan.rows[row as usize];
        let (first, n_samples) = (plan.file(planned).first_sample, planned.n_samples);
        let open = || plan.open(planned, run.shared.work.techniques.reads);
        Ok(Self { source: run.shared.work.counters.time(Stage::Read, open)?, row, first, n_samples, at: 0 })
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.n_samples
    }

    /// Returns the next samples; fewer than `to` holds at the end, and then none.
    pub(super) fn read(&mut self, run: &Run<'_>, to: &mut [f32]) -> Result<usize> {
        let n = (self.n_samples - self.at).min(to.len() as u64) as usize;
        let counters = run.shared.work.counters;
        counters.time(Stage::Read, || self.source.read_f32(self.first + self.at, &mut to[..n]))?;
        counters.bytes_read.fetch_add((n * size_of::<f32>()) as u64, Relaxed);
        counters.bytes_sent.fetch_add((n * size_of::<f32>()) as u64, Relaxed);
        self.at += n as u64;
        if n > 0
            && self.is_at_end()
            && let Some(note) = self.source.clipped()
        {
            run.clipped.lock().insert(self.row, note);
        }
        Ok(n)
    }
}
