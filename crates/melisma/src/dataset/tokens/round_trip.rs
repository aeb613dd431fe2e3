//! Decodes the codes of rows and compares the audio with the files.

use super::job::Run;
use super::reader::Reader;
use crate::dataset::counters::Stage;
use crate::dataset::failure::{Failure, RowFailure};
use crate::dataset::plan::{Check, Plan};
use crate::dataset::row::Status;
use crate::dataset::store::Store;
use crate::dataset::store::hash::MEASURED;
use crate::fidelity::{Fidelity, Meter};
use crate::runtime::device::Queue;
use crate::runtime::memory::Budget;
use crate::snac::{Codes, Engine, EngineOptions, Noise, StreamId};
use crate::{Context, Result};

/// Frames that are decoded at once.
const FRAMES: u64 = 16;
/// Rows that are compared with the limit at once.
const ROWS: u64 = 4096;

/// A decoder and a comparison.
pub(super) struct RoundTrip {
    engine: Engine,
    meter: Meter,
}

impl RoundTrip {
    /// Creates it on the device of `queue`, with the weights of `first` if there is one.
    pub(super) fn new(run: &Run<'_>, queue: &Queue, first: Option<&Self>) -> Result<Self> {
        let budget: &Budget = run.shared.work.budget;
        let model = run.job.model();
        let engine = match first {
            Some(first) => first.engine.sibling(queue, budget, 1)?,
            None => Engine::new(model, queue, budget, EngineOptions::new(1))?,
        };
        Ok(Self { engine, meter: Meter::new_in(&Context::of_queue(queue, budget), model.config().sampling_rate)? })
    }

    /// Compares a row whose codes are written with its file.
    pub(super) fn measure(&mut self, run: &Run<'_>, row: u32) -> Result<Fidelity> {
        let stream = self.engine.open(Noise::Off)?;
        let measured = self.compare(run, row, stream);
        if measured.is_err() {
            // The next row begins anew. A stream that was finished is closed already.
            let _ = (self.engine.close(stream), self.meter.finish());
        }
        measured
    }

    fn compare(&mut self, run: &Run<'_>, row: u32, stream: StreamId) -> Result<Fidelity> {
        let work = run.shared.work;
        let planned = &work.plan.rows[row as usize];
        let config = run.job.model().config();
        let n_slots = run.job.n_slots;
        let mut reader = Reader::open(run, row)?;
        let mut samples = vec![0.0; FRAMES as usize * config.frame_len()];
        let mut frame = planned.start;
        while frame < planned.next_frame() {
            work.counters.check_stop()?;
            let n = reader.read(run, &mut samples)?;
            let n_frames = FRAMES.min(planned.next_frame() - frame);
            let mut bytes = vec![0; n_frames as usize * n_slots * 2];
            work.store.read(run.shared.columns.values, frame, &mut bytes)?;
            let codes: Vec<i32> = bytes.as_chunks().0.iter().map(|&code| u16::from_le_bytes(code).into()).collect();
            let codes = Codes::from_frames(config, &codes)?;
            work.counters.time(Stage::Compute, || {
                self.meter.original(&samples[..n])?;
                self.meter.decoded(&self.engine.push(stream, &codes)?)
            })?;
            frame += n_frames;
        }
        work.counters.time(Stage::Compute, || {
            self.meter.decoded(&self.engine.finish(stream)?)?;
            self.meter.finish()
        })
    }
}

/// Returns the valid rows of `store` whose signal-to-noise ratio is below the limit of `check`.
pub(in crate::dataset) fn below_limit(check: Check, store: &Store, plan: &Plan) -> Result<Vec<RowFailure>> {
    let Check::Measure { min_snr_db: Some(least) } = check else { return Ok(Vec::new()) };
    let (snr, status) = (store.layout.column(MEASURED[0])?, store.layout.column("status")?);
    let mut found = Vec::new();
    let mut first = 0;
    while first < store.layout.n_rows {
        let n = ROWS.min(store.layout.n_rows - first) as usize;
        let (mut numbers, mut valid) = (vec![0; 4 * n], vec![0; n]);
        store.read(snr, first, &mut numbers)?;
        store.read(status, first, &mut valid)?;
        let rows = numbers.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).zip(&valid);
        for (row, (snr_db, _)) in (first..).zip(rows).filter(|(_, (_, valid))| **valid == Status::Ok as u8) {
            let file = plan.file(&plan.rows[row as usize]);
            let failure = Failure::below(plan.input(file).name().into_owned(), snr_db, least);
            found.extend(failure.map(|failure| RowFailure { file: file.index, row: row as u32, failure }));
        }
        first += n as u64;
    }
    Ok(found)
}
